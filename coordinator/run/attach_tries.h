// The tries to bring a job's shards together: under which generations, and how long after another.
#ifndef MILLRACE_COORDINATOR_RUN_ATTACH_TRIES_H_
#define MILLRACE_COORDINATOR_RUN_ATTACH_TRIES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/retry.h"
#include "coordinator/job/job.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// Used by the runner's thread. Statuses that are returned are what the run must end with.
class AttachTries {
 public:
  // None is owned.
  AttachTries(Job* job, RunnerInbox* inbox, Reporter* reporter)
      : job_(job), inbox_(inbox), reporter_(reporter) {}

  // Of one Attach.
  void Begin() { refused_ = 0; }
  // Pauses are short again: not while shards are made again, which takes several Attaches.
  void BeginPauses() {
    backoff_.Reset();
    costly_backoff_.Reset();
  }

  // The newest generation that may be in use anywhere.
  uint64_t generation() const { return job_->record().generation(); }

  // It is in the journal before anybody hears of it.
  absl::Status BeginGeneration(uint64_t generation);

  // Somebody else has given the shards a newer generation (a client of the ps servers' own port, or
  // an older copy of this coordinator's directory). Going on above it shuts that one out.
  absl::Status AdoptGeneration(ShardGroup& shards, const absl::Status& refusal);

  // What follows from the answer to a call of all shards.
  ReachAction Decide(const absl::Status& status) const { return DecideReach(status, refused_); }

  // Says whose answer `status`, an error, was, and waits. `is_costly`: the next try costs servers
  // work, and comes later.
  absl::Status Pause(const ShardGroup& shards, const absl::Status& status, bool is_costly = false);
  absl::Duration NextPause() { return backoff_.Next(); }

 private:
  Job* const job_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;

  Backoff backoff_{absl::Milliseconds(50), absl::Seconds(2)};
  Backoff costly_backoff_{absl::Seconds(2), absl::Seconds(30)};
  int refused_ = 0;  // Answers in a row: see DecideReach.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_ATTACH_TRIES_H_
