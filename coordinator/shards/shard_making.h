// What ps servers are told to make of the shards of a job, and how long that may take. Pure.
#ifndef MILLRACE_COORDINATOR_SHARDS_SHARD_MAKING_H_
#define MILLRACE_COORDINATOR_SHARDS_SHARD_MAKING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/journal/job_record.pb.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Reads a shard from any disk: whoever gives up sooner begins anew.
inline constexpr absl::Duration kReadPatience = absl::Hours(1);

// Thread-safe.
class ShardMaking {
 public:
  // REQUIRES: the job is planned, and its warm start found.
  explicit ShardMaking(const JobRecord& record);

  // A shard that holds the slices of `placement`: of initial values, of the files that the job
  // begins with, or of the checkpoint that it is restored from.
  ShardSpec SpecOf(uint32_t shard, const ShardPlacement& placement) const;

  // How long a server may take for the largest of these: minutes in memory, and at least
  // kReadPatience where some are read, more where a slow network must carry much.
  absl::Duration Patience(absl::Span<const ShardPlacement> placements) const;
  // The same for one that is copied from another server, while the job stands still.
  absl::Duration CopyPatience(absl::Span<const ShardPlacement> placements) const;

 private:
  // Bytes of the largest: values and slots.
  double MostBytes(absl::Span<const ShardPlacement> placements) const;

  const std::string job_id_;
  const JobSpec spec_;
  const JobPlan plan_;
  const uint64_t total_steps_;
  const bool checks_wire_;  // Whether shards take gradients only as the job says.
  const std::vector<StoredTensor> warm_start_;  // By variable; see JobRecord.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_SHARD_MAKING_H_
