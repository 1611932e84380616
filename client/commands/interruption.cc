#include "client/commands/interruption.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/progress/format.h"
#include "common/checkpoint/checkpoint_paths.h"

namespace millrace::client {
namespace {

// How long an interrupted job may take for its last checkpoint.
constexpr absl::Duration kLastCheckpointTimeout = absl::Seconds(30);

}  // namespace

void NoWorker::Tell(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    why_ = why;
  }
  event_.Trigger();
}

absl::Status NoWorker::Error(const CommandContext& context, const std::string& checkpoints) const {
  MutexLock lock(&mutex_);
  const bool goes_on = !checkpoints.empty() || !context.flags.state_dir.empty();
  return absl::UnavailableError(absl::StrCat(
      "no worker is left to compute: ", std::string(why_.message()), ". ",
      goes_on ? "The same command goes on with the job"
              : "Nothing of the job is kept, as it has neither --checkpoints nor --state_dir",
      "; --device=cpu computes without a GPU."));
}

Interruption::Interruption(const CommandContext& context, const std::string& checkpoints,
                           JobsClient* client, ProgressView* view)
    : embedded_(context.flags.cluster.empty()),
      has_state_dir_(!context.flags.state_dir.empty()),
      checkpoints_(checkpoints),
      client_(client),
      view_(view),
      action_(context.interrupt, [this] { Act(); }) {}

void Interruption::SetJob(const std::string& job_id) {
  MutexLock lock(&mutex_);
  job_id_ = job_id;
}

void Interruption::Abandon() {
  const std::string job_id = Job();
  if (!job_id.empty() && !checkpoints_.empty()) WriteCheckpoint(job_id);
  client_->Interrupt();
}

std::string Interruption::Job() {
  MutexLock lock(&mutex_);
  return job_id_;
}

void Interruption::Act() {
  const std::string job_id = Job();
  if (embedded_ && job_id.empty()) {
    view_->Note("Ending; interrupt again to exit at once.");
  }
  if (!embedded_ || job_id.empty()) return client_->Interrupt();
  if (checkpoints_.empty()) {
    view_->Note("Cancelling the job; interrupt again to exit at once.");
  } else {
    WriteCheckpoint(job_id);
    // The next run on the state directory goes on with the job itself.
    if (has_state_dir_) return client_->Interrupt();
  }
  if (const auto status = client_->Cancel(job_id); !status.ok()) {
    view_->Note(absl::StrCat("Cannot cancel the job: ", std::string(status.status().message())));
    client_->Interrupt();
  }
}

// The last one, from which the next run goes on.
void Interruption::WriteCheckpoint(const std::string& job_id) {
  view_->Note("Writing a checkpoint; interrupt again to exit at once.");
  const auto written = client_->Checkpoint(job_id, /*wait=*/true, kLastCheckpointTimeout);
  if (written.ok()) {
    view_->Note(absl::StrCat("Checkpoint ", CheckpointFolder(written->checkpoint().number()),
                             " at step ", FormatCount(written->checkpoint().step()), " is in ",
                             checkpoints_, ". The same command goes on from there."));
  } else {
    view_->Note(absl::StrCat("Cannot write a checkpoint: ", std::string(written.status().message()),
                             ". The same command goes on from the one with the most steps in ",
                             checkpoints_, ", if there is one."));
  }
}

}  // namespace millrace::client
