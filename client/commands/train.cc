#include "client/commands/train.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/commands/beginning.h"
#include "client/commands/best.h"
#include "client/commands/ended_job.h"
#include "client/commands/export.h"
#include "client/commands/follow.h"
#include "client/commands/interruption.h"
#include "client/commands/load_job.h"
#include "client/commands/unfinished_job.h"
#include "client/embedded_cluster.h"
#include "client/exporter.h"
#include "client/progress/make_view.h"
#include "client/temporary_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// Of a job for the cluster of this process.
absl::Status CheckModelIsKnown(const JobSpec& spec) {
  if (!spec.model().has_custom()) return absl::OkStatus();
  return FieldError("model.custom.name", absl::StrCat("'", spec.model().custom().name(), "'"),
                    "left out here, where workers know models of layers alone; --cluster=HOST:PORT "
                    "names a cluster whose workers know others");
}

// Puts into `spec` where it begins, and tells it. Returns the checkpoint of its end where nothing
// is left to do; nullptr: it is to be submitted.
absl::StatusOr<std::unique_ptr<Checkpoint>> Begin(const CommandContext& context, JobSpec& spec,
                                                  ProgressView* view) {
  MILLRACE_ASSIGN_OR_RETURN(Beginning beginning, FindBeginning(spec, ReadingFor(context, view)));
  for (const std::string& note : beginning.notes) view->Note(note);
  spec = std::move(beginning.spec);
  return std::move(beginning.ended);
}

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> StartEmbedded(const CommandContext& context,
                                                               NoWorker* no_worker) {
  const Flags& flags = context.flags;
  EmbeddedClusterOptions options;
  options.ps = flags.ps;
  options.workers = flags.workers;
  options.device = flags.device;
  options.deterministic = flags.deterministic;
  options.device_timeout = flags.device_timeout;
  options.load_cuda = context.load_cuda;
  options.on_no_worker = [no_worker](const absl::Status& why) { no_worker->Tell(why); };
  options.state_dir = flags.state_dir;
  return EmbeddedCluster::Start(options);
}

// The job to follow, or the checkpoint of its end where it has ended in an earlier run.
struct StartedJob {
  std::string id;
  std::unique_ptr<Checkpoint> ended;
};

// A new one, or one that an earlier run left in --state_dir.
absl::StatusOr<StartedJob> SubmitOrResume(const CommandContext& context, JobSpec spec,
                                          JobsClient* client, ProgressView* view) {
  const Flags& flags = context.flags;
  StartedJob job;
  if (!flags.state_dir.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const absl::optional<std::string> unfinished,
                              FindUnfinishedJob(client, spec, flags.state_dir));
    if (unfinished) {
      view->Note(absl::StrCat("Resuming job ", *unfinished, " of ", flags.state_dir, "."));
      job.id = *unfinished;
      return job;
    }
    MILLRACE_ASSIGN_OR_RETURN(job.ended, Begin(context, spec, view));
    if (job.ended != nullptr) return job;
  }
  MILLRACE_ASSIGN_OR_RETURN(job.id, client->Submit(spec));
  return job;
}

// A job that is to be trained; `checkpoints`: where its checkpoints stay; empty: nowhere.
struct Training {
  JobSpec spec;
  std::string checkpoints;
  NoWorker* no_worker = nullptr;
};

// Its outcome, or the checkpoint of its end where it has ended in an earlier run. Neither: the user
// has stopped before the job's end, and was told what becomes of it.
struct FollowedJob {
  absl::optional<JobOutcome> outcome;
  std::unique_ptr<Checkpoint> ended;
};

absl::StatusOr<FollowedJob> RunToItsEnd(const CommandContext& context, const Training& training,
                                        JobsClient* client, ProgressView* view) {
  const Flags& flags = context.flags;
  const auto stopped = [&](const std::string& note) {
    if (!flags.cluster.empty()) view->Note(note);
    return FollowedJob();
  };
  Interruption interruption(context, training.checkpoints, client, view);
  const Interrupt& no_worker = *training.no_worker->event();
  const Interrupt::Action abandon(training.no_worker->event(), [&] { interruption.Abandon(); });
  absl::StatusOr<StartedJob> job = SubmitOrResume(context, training.spec, client, view);
  if (!job.ok() && context.interrupt->triggered()) return stopped(MaybeTakenNote(flags.cluster));
  if (!job.ok() && no_worker.triggered()) {
    return training.no_worker->Error(context, training.checkpoints);
  }
  MILLRACE_RETURN_IF_ERROR(job.status());
  if (job->ended != nullptr) return FollowedJob{absl::nullopt, std::move(job->ended)};
  interruption.SetJob(job->id);
  const auto outcome = FollowJob(client, job->id, view);
  if (!outcome.ok() && context.interrupt->triggered()) {
    return stopped(DetachedNote(job->id, flags.cluster));
  }
  if (!outcome.ok() && no_worker.triggered()) {
    return training.no_worker->Error(context, training.checkpoints);
  }
  MILLRACE_RETURN_IF_ERROR(outcome.status());
  return FollowedJob{*outcome, nullptr};
}

absl::Status ExportBestOf(JobsClient* client, const std::string& job_id, const std::string& file,
                          const Interrupt& interrupt) {
  MILLRACE_ASSIGN_OR_RETURN(const JobStatus status, client->Get(job_id));
  MILLRACE_ASSIGN_OR_RETURN(const BestEvaluation best, BestOf(status));
  return ExportBest(best, file, interrupt);
}

// All that was trained of a job that FAILED for want of a directory for its checkpoints goes with
// the cluster of this process; but it takes the place of no earlier file, since it may be worth
// less.
bool IsExported(const Flags& flags, const JobOutcome& outcome) {
  if (flags.export_file.empty()) return false;
  const bool is_trained = outcome.total_steps > 0 && outcome.step == outcome.total_steps;
  return outcome.state == SUCCEEDED || (outcome.state == FAILED && flags.cluster.empty() &&
                                        is_trained && !std::filesystem::exists(flags.export_file));
}

absl::Status Export(const CommandContext& context, JobsClient* client, ProgressView* view,
                    JobOutcome* outcome) {
  const std::string& file = context.flags.export_file;
  if (!IsExported(context.flags, *outcome)) return absl::OkStatus();
  ExportOptions options;
  options.interrupt = context.interrupt;
  options.on_wait = [view](const std::string& message) { view->Note(message); };
  const absl::Status status = context.flags.best
                                  ? ExportBestOf(client, outcome->job_id, file, *context.interrupt)
                                  : ExportVariables(client, outcome->job_id, file, options);
  if (status.ok()) {
    outcome->export_file = file;
  } else {
    outcome->export_error = status.ToString();
  }
  return status;
}

absl::StatusOr<ExitCode> TrainOn(const CommandContext& context, const Training& training,
                                 JobsClient* client, ProgressView* view) {
  MILLRACE_ASSIGN_OR_RETURN(FollowedJob job, RunToItsEnd(context, training, client, view));
  if (job.ended != nullptr) {
    return FinishEnded(context, training.spec.evaluation().keep_best(), training.checkpoints,
                       job.ended.get(), view);
  }
  absl::optional<JobOutcome>& outcome = job.outcome;
  if (!outcome) return ExitCode::kInterrupted;
  const absl::Status exported = Export(context, client, view, &*outcome);
  // Whatever becomes of the export, the job's final state is the last that programs are told.
  view->Finish(*outcome);
  if (context.interrupt->triggered()) return ExitCode::kInterrupted;
  if (exported.ok()) return ExitCodeOf(*outcome);
  PrintError(context, exported);
  return ExitCode::kFailed;
}

// Where the best state of a job is all that is wanted of its checkpoints, they need no directory
// that stays: the one that is returned goes with the command. nullptr: the job needs none.
absl::StatusOr<std::unique_ptr<TemporaryDirectory>> PlaceBest(const Flags& flags, JobSpec& spec) {
  if (!flags.best) return nullptr;
  if (!spec.evaluation().has_keep_best()) {
    return UsageError(
        "--best: the job keeps no best state; --set evaluation.keep_best={} has it "
        "keep that with the lowest eval_loss");
  }
  const bool is_temporary = flags.cluster.empty() && flags.state_dir.empty();
  if (!is_temporary || !spec.checkpoints().directory().empty()) return nullptr;
  MILLRACE_ASSIGN_OR_RETURN(auto temporary, TemporaryDirectory::Create());
  spec.mutable_checkpoints()->set_directory(JoinPath(temporary->path(), "checkpoints"));
  if (spec.checkpoints().keep() == 0) spec.mutable_checkpoints()->set_keep(1);
  return temporary;
}

}  // namespace

absl::StatusOr<ExitCode> RunTrain(const CommandContext& context) {
  const Flags& flags = context.flags;
  const auto view = MakeProgressView(context.console, flags.json);
  MILLRACE_ASSIGN_OR_RETURN(JobSpec spec, LoadJob(flags, ReadingFor(context, view.get())));
  const std::string checkpoints = spec.checkpoints().directory();
  // Outlives the cluster.
  MILLRACE_ASSIGN_OR_RETURN(const auto temporary, PlaceBest(flags, spec));
  MILLRACE_RETURN_IF_ERROR(CheckJobSpec(spec));
  if (!flags.export_file.empty()) MILLRACE_RETURN_IF_ERROR(CheckExportFile(flags.export_file));
  NoWorker no_worker;
  std::unique_ptr<EmbeddedCluster> embedded;
  CommandContext connection = context;
  if (flags.cluster.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckModelIsKnown(spec));
    // With a state directory the cluster knows of jobs that have not ended: SubmitOrResume.
    if (flags.state_dir.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(const auto ended, Begin(context, spec, view.get()));
      if (ended != nullptr) {
        return FinishEnded(context, spec.evaluation().keep_best(), checkpoints, ended.get(),
                           view.get());
      }
    }
    MILLRACE_ASSIGN_OR_RETURN(embedded, StartEmbedded(context, &no_worker));
    connection.flags.cluster = embedded->address();
    connection.flags.tls = {};  // It is in this process.
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(connection, view.get()));
  auto exit_code = TrainOn(context, {spec, checkpoints, &no_worker}, client.get(), view.get());
  if (exit_code.ok() || !no_worker.event()->triggered()) return exit_code;
  // Before the end of the cluster, which may end the process.
  ReportError(context, exit_code.status());
  return ExitCode::kFailed;
}

}  // namespace millrace::client
