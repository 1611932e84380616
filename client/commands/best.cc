#include "client/commands/best.h"

#include "absl/strings/str_cat.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/checkpoints_export.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/evaluation_spec.h"

namespace millrace::client {

absl::StatusOr<BestEvaluation> BestOf(const JobStatus& status) {
  if (status.has_best()) return status.best();
  const std::string job = absl::StrCat("job ", status.job_id());
  if (!status.spec().evaluation().has_keep_best()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job, " keeps no best state; submit it with evaluation.keep_best"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(job, " has no best state: no evaluation with a number for ",
                   MetricOf(status.spec().evaluation().keep_best()), " has been kept"));
}

absl::optional<BestEvaluation> BestIn(const ListedCheckpoints& listed) {
  for (auto each = listed.rbegin(); each != listed.rend(); ++each) {
    if (!each->manifest.ok()) continue;
    if (!each->manifest->has_best()) return absl::nullopt;
    return each->manifest->best();
  }
  return absl::nullopt;
}

absl::Status ExportBest(const BestEvaluation& best, const std::string& path,
                        const Interrupt& interrupt) {
  const CheckpointInfo& where = best.checkpoint();
  const auto checkpoint = OpenCheckpoint({where.directory(), where.number()});
  if (absl::IsNotFound(checkpoint.status())) {
    return absl::NotFoundError(
        absl::StrCat("the best state is in ", CheckpointPath(where.directory(), where.number()),
                     ", which is not there: export it where that directory can be seen"));
  }
  if (!checkpoint.ok()) return checkpoint.status();
  return ExportCheckpoint(checkpoint->get(), /*slots=*/false, path, interrupt);
}

nlohmann::ordered_json BestJson(const BestEvaluation& best) {
  return {{"metric", best.metric()},
          {"value", best.value()},
          {"step", best.step()},
          {"checkpoint", best.checkpoint().number()}};
}

}  // namespace millrace::client
