// Whether what a worker says of a job's model makes sense.
#ifndef MILLRACE_COORDINATOR_JOBS_PLAN_CHECK_H_
#define MILLRACE_COORDINATOR_JOBS_PLAN_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// INVALID_ARGUMENT: "plan.variables[2].name: 'w'; must be unlike the names before it". A plan
// without variables passes: that is the job's trouble, not the worker's.
absl::Status CheckPlan(const JobSpec& spec, const JobPlan& plan);

// What people should know of a plan that passes; empty: nothing. A worker that planned a
// synchronous job and does not say that it rounds what travels, where the job wants that, does not
// do it, and those that do take no part. (One that says nothing of its numerics may be an older
// one, which rounded.)
std::string RemarkOnPlan(const JobSpec& spec, const JobPlan& plan);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_PLAN_CHECK_H_
