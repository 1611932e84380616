// Whether what a worker says of a job's model makes sense.
#ifndef MILLRACE_COORDINATOR_JOBS_PLAN_CHECK_H_
#define MILLRACE_COORDINATOR_JOBS_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// INVALID_ARGUMENT: "plan.variables[2].name: 'w'; must be unlike the names before it". A plan
// without variables passes: that is the job's trouble, not the worker's.
absl::Status CheckPlan(const JobSpec& spec, const JobPlan& plan);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_PLAN_CHECK_H_
