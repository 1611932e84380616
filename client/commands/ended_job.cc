#include "client/commands/ended_job.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/commands/best.h"
#include "client/commands/checkpoints_export.h"
#include "client/job_outcome.h"
#include "client/progress/format.h"
#include "common/evaluation_spec.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// The best state of a job that has ended was chosen as that job was told.
absl::Status CheckSameBest(const KeepBest& asked, const CheckpointManifest& manifest) {
  const KeepBest& kept = manifest.spec().evaluation().keep_best();
  const std::string metric = MetricOf(kept);
  const bool larger = LargerIsBetter(metric, kept.goal()).value_or(false);
  if (MetricOf(asked) == metric && LargerIsBetter(metric, asked.goal()).value_or(false) == larger) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "evaluation.keep_best: the job that has ended kept the state with the ",
      larger ? "largest " : "smallest ", metric,
      "; ask for the same, or train with more epochs or steps, from where the new rule holds"));
}

// Of a job that ended in an earlier run, with its last checkpoint in `directory`.
absl::Status ExportEnded(const CommandContext& context, const KeepBest& asked,
                         const std::string& directory, Checkpoint* checkpoint) {
  const std::string& file = context.flags.export_file;
  if (!context.flags.best) {
    return ExportCheckpoint(checkpoint, /*slots=*/false, file, *context.interrupt);
  }
  BestEvaluation best = checkpoint->manifest().best();
  if (best.metric().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job that has ended in ", directory, " kept no best state"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckSameBest(asked, checkpoint->manifest()));
  best.mutable_checkpoint()->set_directory(directory);
  return ExportBest(best, file, *context.interrupt);
}

}  // namespace

ExitCode FinishEnded(const CommandContext& context, const KeepBest& asked,
                     const std::string& directory, Checkpoint* checkpoint, ProgressView* view) {
  const CheckpointManifest& manifest = checkpoint->manifest();
  JobOutcome outcome;
  outcome.job_id = manifest.job_id();
  outcome.state = SUCCEEDED;
  outcome.step = manifest.step();
  outcome.total_steps = manifest.step();
  outcome.metrics = ToMetrics(manifest.metrics());
  outcome.best = manifest.best();
  if (manifest.has_stopped_early()) {
    outcome.stopped_early = manifest.stopped_early();
    outcome.message = DescribeStop(manifest.stopped_early());
  }
  const std::string& file = context.flags.export_file;
  absl::Status exported;
  if (!file.empty()) {
    exported = ExportEnded(context, asked, directory, checkpoint);
    (exported.ok() ? outcome.export_file : outcome.export_error) =
        exported.ok() ? file : exported.ToString();
  }
  view->Finish(outcome);
  if (exported.ok()) return ExitCode::kSucceeded;
  PrintError(context, exported);
  return ExitCode::kFailed;
}

}  // namespace millrace::client
