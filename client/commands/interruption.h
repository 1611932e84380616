// What ends `train` before its job's end: an interrupt, or the loss of the last worker of a cluster
// of this process.
#ifndef MILLRACE_CLIENT_COMMANDS_INTERRUPTION_H_
#define MILLRACE_CLIENT_COMMANDS_INTERRUPTION_H_

#include <string>

#include "absl/status/status.h"
#include "client/commands/command.h"
#include "client/interrupt.h"
#include "client/jobs_client.h"
#include "client/progress/progress_view.h"
#include "common/mutex.h"

namespace millrace::client {

// Whether a cluster of this process has lost its last worker. Thread-safe.
class NoWorker {
 public:
  void Tell(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Triggered when it is told.
  Interrupt* event() { return &event_; }

  // UNAVAILABLE: why, and whether the same command goes on with the job. `checkpoints`: the job's
  // directory; empty: it has none. REQUIRES: it is told.
  absl::Status Error(const CommandContext& context, const std::string& checkpoints) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  Interrupt event_;
};

// What an interrupt does depends on how far the command is. Before there is a job, and of a job of
// a cluster, it ends the client's calls. A job of a cluster of this process is cancelled, after a
// last checkpoint where it has a directory; one with a state directory is left for the next run. It
// acts on the interrupt's thread, for as long as it lives. Thread-safe.
class Interruption {
 public:
  // `checkpoints`: the job's directory of checkpoints; empty: it has none. `client` and `view` are
  // not owned.
  Interruption(const CommandContext& context, const std::string& checkpoints, JobsClient* client,
               ProgressView* view);

  // The job that is under way from now on.
  void SetJob(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // No worker is left: has what shards hold written, half a minute at most, and ends the client's
  // calls.
  void Abandon();

 private:
  std::string Job() ABSL_LOCKS_EXCLUDED(mutex_);
  void Act();
  void WriteCheckpoint(const std::string& job_id);

  const bool embedded_;
  const bool has_state_dir_;
  const std::string checkpoints_;
  JobsClient* const client_;
  ProgressView* const view_;
  Mutex mutex_;
  std::string job_id_ ABSL_GUARDED_BY(mutex_);
  Interrupt::Action action_;  // Last: it may call Act() from its constructor on.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_INTERRUPTION_H_
