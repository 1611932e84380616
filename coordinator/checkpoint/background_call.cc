#include "coordinator/checkpoint/background_call.h"

#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::coordinator {

struct BackgroundCall::State {
  Mutex mutex;
  CondVar changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  bool telling ABSL_GUARDED_BY(mutex) = false;  // on_end runs.
  bool left ABSL_GUARDED_BY(mutex) = false;     // Nobody wants to be told.
};

BackgroundCall::BackgroundCall(std::function<void()> call, std::function<void()> on_end)
    : state_(std::make_shared<State>()) {
  std::thread([state = state_, call = std::move(call), on_end = std::move(on_end)] {
    call();
    {
      MutexLock lock(&state->mutex);
      state->ended = true;
      state->telling = on_end != nullptr && !state->left;
      state->changed.SignalAll();
      if (!state->telling) return;
    }
    on_end();
    MutexLock lock(&state->mutex);
    state->telling = false;
    state->changed.SignalAll();
  }).detach();
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
