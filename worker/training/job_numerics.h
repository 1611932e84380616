// JobPlan.numerics: what the bits of a job depend on, in the words of a worker.
#ifndef MILLRACE_WORKER_TRAINING_JOB_NUMERICS_H_
#define MILLRACE_WORKER_TRAINING_JOB_NUMERICS_H_

#include <string>

#include "absl/status/status.h"
#include "protos/job.pb.h"

namespace millrace::worker {

// What the model says of itself, empty where that is unknown; and, where the job's numbers are
// rounded on their way, how: "..., BFLOAT16 on the wire", or that alone. Workers round for every
// model, so they say it for every model.
std::string JobNumerics(const JobSpec& spec, const std::string& model);

// Whether two workers compute a step alike, as far as they say. Rounding on the way is always
// compared: who does not say that he rounds does not. The rest is compared where both are known.
// INVALID_ARGUMENT names both.
absl::Status CheckSameNumerics(const std::string& own, const std::string& planned);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_JOB_NUMERICS_H_
