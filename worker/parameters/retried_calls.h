// A call to all shards of a job, of which each part is tried until it succeeds.
#ifndef MILLRACE_WORKER_PARAMETERS_RETRIED_CALLS_H_
#define MILLRACE_WORKER_PARAMETERS_RETRIED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/retry.h"
#include "worker/parameters/attempt.h"
#include "worker/parameters/client_core.h"

namespace millrace::worker {

// The engine under pulls and pushes. A part (a shard, or a part of one) is done by one attempt at a
// time. One that fails is repeated after a pause that grows. One that makes no progress for
// ClientCore::call_timeout (longer for what has many bytes, and twice as long after each such
// failure) is given up, and made again under another id: an answer that comes after all is ignored,
// and a step that was applied already is acknowledged. Where a shard has needed more than half of
// that, the next call of the kind gives it twice as long from the start, and so on, up to eight
// times; a call that needs less takes one doubling back. Or each step would begin with attempts
// that a slow network cannot finish.
//
// Attempts are made by the owner's calls (Wait, and what derived classes offer): there is no thread
// here. Thread-safe.
class RetriedCalls {
 public:
  RetriedCalls(const RetriedCalls&) = delete;
  RetriedCalls& operator=(const RetriedCalls&) = delete;

  // Blocks until every part is done. DEADLINE_EXCEEDED names the servers that it waits for, and may
  // be followed by another call. CANCELLED: see Cancel and ClientCore::Cancel.
  absl::Status Wait(absl::Time deadline) ABSL_LOCKS_EXCLUDED(core_->monitor()->mutex);

  // Ends Wait, now and later.
  void Cancel() ABSL_LOCKS_EXCLUDED(core_->monitor()->mutex);

  // The lowest shard of which a part is not done; nothing: all are.
  absl::optional<uint32_t> FirstUnanswered() const ABSL_LOCKS_EXCLUDED(core_->monitor()->mutex);

 protected:
  // `what`: "push of step 3", for messages.
  RetriedCalls(std::shared_ptr<ClientCore> core, ClientCore::Call call, std::string what);
  // REQUIRES: CloseAll was called.
  virtual ~RetriedCalls() = default;

  // Abandons what is under way. The last call of a derived class's destructor.
  void CloseAll() ABSL_LOCKS_EXCLUDED(core_->monitor()->mutex);

  // Of shard `shard` (an index of the layout); `bytes` are sent or received. REQUIRES: called by a
  // derived class's constructor, before it sends anything.
  void AddPart(size_t shard, uint64_t bytes) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  struct Part {
    size_t shard = 0;
    uint64_t bytes = 0;
    std::shared_ptr<Attempt> attempt;
    bool done = false;
    absl::Time retry_at = absl::InfinitePast();
    Backoff backoff{absl::Milliseconds(20), absl::Seconds(1)};
    Backoff fault_backoff{absl::Milliseconds(200), absl::Seconds(1)};
    int patience = -1;  // As of ClientCore when the first attempt was looked at; before: none.
    int silences = 0;   // Attempts that were given up for want of progress.
    absl::Duration given_up;  // How long the last of these was silent.
    absl::Duration answered;  // Of a part that is done: how long its attempt was silent.
    int faults = 0;           // Attempts that failed as a server at fault would have them fail.
    absl::Status last_failure;
  };

  // Makes a part's attempt and sends it. Called without the lock.
  virtual void Send(size_t part) = 0;
  // What is to follow where nothing is heard of a part.
  virtual Attempt::Again AfterSilence(size_t /*part*/) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex) {
    return Attempt::Again::kAtOnce;
  }
  // The part has no attempt any more; another one will be asked for.
  virtual void OnFailed(size_t part, Attempt::Again again)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex) = 0;

  std::vector<Part>& parts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex) {
    return parts_;
  }
  const ShardLayout& layout_of(size_t shard) const { return core_->layout().shards[shard]; }

  const std::shared_ptr<ClientCore> core_;

 private:
  // What a look at the parts found to be done, without the lock.
  struct Findings {
    std::vector<std::pair<std::shared_ptr<Attempt>, Attempt::Rest>> to_close;
    std::vector<size_t> to_send;
    absl::Time wake = absl::InfiniteFuture();
    bool all_done = true;
  };

  // Fails when a part was refused.
  absl::Status LookAtParts(absl::Time now, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status LookAtPart(size_t index, absl::Time now, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status LookAtAttempt(size_t index, absl::Time now, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  // The part's attempt has failed.
  absl::Status Fail(size_t index, const absl::Status& status, Attempt::Again again,
                    Attempt::Fault fault, absl::Time now, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  void GiveUp(size_t index, absl::Duration limit, absl::Time now, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  // The part has no attempt any more: it is to be done again, not before `at`.
  void DoAgain(size_t index, Attempt::Again again, absl::Time at, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  // All parts of a shard are to be done again, not before `at`.
  void StartOver(size_t shard, absl::Time at, Findings* findings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Duration LimitOf(const Part& part) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  // The doublings that a part would have needed.
  int NeededPatience(const Part& part) const;
  // All parts are done: how long that took is what the next call of the kind may expect.
  void LearnPatience() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status DeadlineExceeded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);

  const ClientCore::Call call_;
  const std::string what_;
  std::vector<Part> parts_ ABSL_GUARDED_BY(core_->monitor()->mutex);
  bool cancelled_ ABSL_GUARDED_BY(core_->monitor()->mutex) = false;
  bool learned_ ABSL_GUARDED_BY(core_->monitor()->mutex) = false;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_RETRIED_CALLS_H_
