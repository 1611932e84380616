// Whether what a worker says of a job's model makes sense.
#ifndef MILLRACE_COORDINATOR_JOB_PLAN_CHECK_H_
#define MILLRACE_COORDINATOR_JOB_PLAN_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// INVALID_ARGUMENT: "plan.variables[2].name: 'w'; must be unlike the names before it". A plan
// without variables passes: that is the job's trouble, not the worker's.
absl::Status CheckPlan(const JobSpec& spec, const JobPlan& plan);

// Whether one worker that rounds what travels otherwise changes what the job promises to repeat.
bool BitsDependOnWire(const JobSpec& spec);

// Whether the worker that planned such a job does not round what travels, though the job wants
// that: it does not say so. (One that says nothing of its numerics may be an older one, which
// rounded.)
bool IsPlannedUnrounded(const JobSpec& spec, const JobPlan& plan);

// What people should know of a plan that passes; empty: nothing. Where it is planned unrounded,
// those that round take no part.
std::string RemarkOnPlan(const JobSpec& spec, const JobPlan& plan);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_PLAN_CHECK_H_
