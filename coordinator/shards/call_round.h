// Calls that are made to several servers at once.
#ifndef MILLRACE_COORDINATOR_SHARDS_CALL_ROUND_H_
#define MILLRACE_COORDINATOR_SHARDS_CALL_ROUND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace millrace::coordinator {

// Each call has its own deadline, so that the round takes as long as the slowest server and no
// longer than that deadline. Must outlive its calls: see Await. Thread-safe.
class CallRound {
 public:
  CallRound(size_t calls, absl::Duration timeout)
      : statuses_(calls), done_(calls), pending_(calls) {
    for (size_t i = 0; i < calls; ++i) {
      contexts_.push_back(std::make_unique<grpc::ClientContext>());
      contexts_.back()->set_deadline(SystemDeadline(timeout));
    }
  }
  virtual ~CallRound() = default;

  // For the call with this index: each is begun with its own context, and ends with its own Done.
  grpc::ClientContext* context(size_t call) { return contexts_[call].get(); }
  void Done(size_t call, const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::function<void()> on_end;
    {
      MutexLock lock(&mutex_);
      statuses_[call] = status;
      done_[call] = true;
      if (--pending_ > 0) return;
      on_end = on_end_;
    }
    if (on_end) on_end();
    MutexLock lock(&mutex_);
    over_ = true;
    ended_.SignalAll();
  }

  // `on_end` is called once, on some thread, when the last call ends. Before the first call.
  void set_on_end(std::function<void()> on_end) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    on_end_ = std::move(on_end);
  }

  void Cancel() {
    for (const auto& context : contexts_) context->TryCancel();
  }

  // Blocks until every call has ended and `on_end` has returned.
  void Await() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!over_) ended_.Wait(&mutex_);
  }

  // The same for `timeout` at most; returns whether they have.
  bool AwaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::Time deadline = Clock::Real()->Now() + timeout;
    MutexLock lock(&mutex_);
    while (!over_ && !Clock::Real()->WaitUntil(&ended_, &mutex_, deadline)) {
    }
    return over_;
  }

  bool HasEnded(size_t call) const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return done_[call];
  }

  bool HasEnded() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return pending_ == 0;
  }

  // Those that have not ended, by index.
  std::vector<uint32_t> Open() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    std::vector<uint32_t> open;
    for (uint32_t call = 0; call < done_.size(); ++call) {
      if (!done_[call]) open.push_back(call);
    }
    return open;
  }

  // REQUIRES: the calls have ended.
  std::vector<grpc::Status> statuses() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return statuses_;
  }

 private:
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;

  mutable Mutex mutex_;
  CondVar ended_;
  std::function<void()> on_end_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> done_ ABSL_GUARDED_BY(mutex_);
  size_t pending_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_CALL_ROUND_H_
