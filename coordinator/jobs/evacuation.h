// Evacuates ps servers, as clients ask for it, and undoes that.
#ifndef MILLRACE_COORDINATOR_JOBS_EVACUATION_H_
#define MILLRACE_COORDINATOR_JOBS_EVACUATION_H_

#include "absl/status/statusor.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/placement/evacuated_servers.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// See the service's EvacuatePs. Thread-safe; blocks on the journal's disk.
absl::StatusOr<EvacuatePsResponse> EvacuatePs(const EvacuatePsRequest& request,
                                              const MemberRegistry& registry,
                                              EvacuatedServers* evacuated, JobTable* table);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_EVACUATION_H_
