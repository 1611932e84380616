// What a coordinator tells clients of its members.
#ifndef MILLRACE_COORDINATOR_JOBS_MEMBER_LIST_H_
#define MILLRACE_COORDINATOR_JOBS_MEMBER_LIST_H_

#include <memory>
#include <vector>

#include "coordinator/job/job.h"
#include "coordinator/run/runner_environment.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// See the service's ListMembers. `jobs`: all that there are. Does not block.
ListMembersResponse ListMembers(const RunnerEnvironment& environment,
                                const std::vector<std::shared_ptr<Job>>& jobs);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_MEMBER_LIST_H_
