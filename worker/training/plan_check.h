// Whether a worker runs a job on the model and the data that it was planned with.
#ifndef MILLRACE_WORKER_TRAINING_PLAN_CHECK_H_
#define MILLRACE_WORKER_TRAINING_PLAN_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::worker {

// Compares what this worker makes of a job with what it was planned with, on another worker maybe:
// variables and how a step changes them, numbers of examples, the fingerprints of the data where
// both are known, and for a synchronous job that does not allow mixed workers the numerics (see
// CheckSameNumerics). A plan without numerics is compared with nothing of them: an older worker
// made it, which rounded what travels and did not say so, or one of another make. (Initial values
// are not compared: the ps servers alone use them.)
// INVALID_ARGUMENT names both values.
absl::Status CheckSamePlan(const JobSpec& spec, const JobPlan& own, const JobPlan& planned);

// Of a synchronous job that allows mixed workers, where this one computes otherwise than the one
// that planned it: what its bits depend on, for people. Otherwise empty.
std::string MixedNumerics(const JobSpec& spec, const JobPlan& own, const JobPlan& planned);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PLAN_CHECK_H_
