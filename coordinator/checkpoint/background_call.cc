#include "coordinator/checkpoint/background_call.h"

#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::coordinator {

struct BackgroundCall::State {
  void Run() ABSL_LOCKS_EXCLUDED(mutex);

  // Only for Run.
  std::function<void()> call;
  std::function<void()> on_end;
  Mutex mutex;
  CondVar changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  bool telling ABSL_GUARDED_BY(mutex) = false;  // on_end runs.
  bool left ABSL_GUARDED_BY(mutex) = false;     // Nobody wants to be told.
};

BackgroundCall::BackgroundCall(std::function<void()> call, std::function<void()> on_end,
                               const ThreadStarter& start_thread)
    : state_(std::make_shared<State>()) {
  state_->call = std::move(call);
  state_->on_end = std::move(on_end);
  absl::StatusOr<std::thread> thread = start_thread([state = state_] { state->Run(); });
  if (thread.ok()) {
    thread->detach();
    return;
  }
  status_ =
      absl::UnavailableError(absl::StrCat("the coordinator has no thread to work on files with (",
                                          std::string(thread.status().message()), ")"));
  state_->call = [] {};
  state_->Run();
}

// What the call owns goes before its end is told.
void BackgroundCall::State::Run() {
  std::exchange(call, nullptr)();
  {
    MutexLock lock(&mutex);
    ended = true;
    telling = on_end != nullptr && !left;
    changed.SignalAll();
    if (!telling) return;
  }
  on_end();
  MutexLock lock(&mutex);
  telling = false;
  changed.SignalAll();
}

BackgroundCall::~BackgroundCall() {
  MutexLock lock(&state_->mutex);
  state_->left = true;
  while (state_->telling) state_->changed.Wait(&state_->mutex);
}

bool BackgroundCall::HasEnded() const {
  MutexLock lock(&state_->mutex);
  return state_->ended;
}

bool BackgroundCall::AwaitFor(absl::Duration timeout) const {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  MutexLock lock(&state_->mutex);
  while (!state_->ended) {
    if (Clock::Real()->WaitUntil(&state_->changed, &state_->mutex, deadline)) break;
  }
  return state_->ended;
}

}  // namespace millrace::coordinator
