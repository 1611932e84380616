// Whether workers wait for a server, by what they say of themselves.
#ifndef MILLRACE_COORDINATOR_RUN_WORKER_WAITS_H_
#define MILLRACE_COORDINATOR_RUN_WORKER_WAITS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/membership/member_registry.h"
#include "protos/cluster.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

struct WorkerWaitsLimits {
  // Who has waited for a shard for this long may not reach its server.
  absl::Duration sure;
  // Who has read or computed a step for longer hangs, and nobody waits for what it may yet push.
  absl::Duration longest_work;
};

// Whether a worker waits for a shard of the job on the server with this directory id, and none
// reads or computes a step of it: while one does, the others may wait for what it pushes next.
bool WorkersWaitFor(const std::string& directory_id, const std::string& job_id,
                    const std::vector<ShardPlacement>& placements,
                    const std::vector<MemberNews>& members, absl::Time now,
                    const WorkerWaitsLimits& limits);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_WORKER_WAITS_H_
