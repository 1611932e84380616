// The state of a job's best evaluation (EvaluationSpec.keep_best).
#ifndef MILLRACE_CLIENT_COMMANDS_BEST_H_
#define MILLRACE_CLIENT_COMMANDS_BEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/commands/checkpoint_folders.h"
#include "client/interrupt.h"
#include "nlohmann/json.hpp"
#include "protos/job.pb.h"

namespace millrace::client {

// FAILED_PRECONDITION: there is none, and why.
absl::StatusOr<BestEvaluation> BestOf(const JobStatus& status);

// That of the run whose checkpoints are in a directory, as the newest one that can be read says.
absl::optional<BestEvaluation> BestIn(const ListedCheckpoints& listed);

// Writes the variables of its checkpoint, as ExportCheckpoint. NOT_FOUND: it is not there, or its
// directory cannot be seen here.
absl::Status ExportBest(const BestEvaluation& best, const std::string& path,
                        const Interrupt& interrupt);

nlohmann::ordered_json BestJson(const BestEvaluation& best);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_BEST_H_
