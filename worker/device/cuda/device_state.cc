#include "worker/device/cuda/device_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::worker {
namespace {

// Looks at the calls so often within the timeout of steps.
constexpr int kLooks = 8;

}  // namespace

DeviceState::DeviceState(std::string name, absl::Duration timeout,
                         absl::Duration least_making_timeout)
    : name_(std::move(name)),
      timeout_(timeout),
      making_timeout_(std::max(timeout, least_making_timeout)),
      watch_([this] { Watch(); }) {}

DeviceState::~DeviceState() {
  {
    MutexLock lock(&mutex_);
    ends_ = true;
    ends_cond_.SignalAll();
  }
  watch_.join();
}

void DeviceState::AddListener(DeviceLost lost) {
  absl::Status why;
  {
    MutexLock lock(&mutex_);
    why = lost_;
    listeners_.push_back(lost);
  }
  if (!why.ok()) lost(why);
}

void DeviceState::Lose(const absl::Status& why) {
  std::vector<DeviceLost> told;
  {
    MutexLock lock(&mutex_);
    if (!lost_.ok()) return;
    lost_ = why;
    told = listeners_;
  }
  for (const DeviceLost& lost : told) lost(why);
}

void DeviceState::Hang(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    hangs_ = true;
  }
  Lose(why);
}

bool DeviceState::lost() const {
  MutexLock lock(&mutex_);
  return !lost_.ok();
}

bool DeviceState::hangs() const {
  MutexLock lock(&mutex_);
  return hangs_;
}

bool DeviceState::AwaitCalls(absl::Duration patience) {
  MutexLock lock(&mutex_);
  while (!calls_.empty() && !idle_cond_.WaitWithTimeout(&mutex_, patience)) {
  }
  return calls_.empty();
}

DeviceState::Call::Call(DeviceState* state, const char* doing, absl::Duration limit)
    : state_(state) {
  MutexLock lock(&state_->mutex_);
  const Begun begun = {std::chrono::steady_clock::now(), doing, limit};
  begun_ = state_->calls_.insert(state_->calls_.end(), begun);
}

DeviceState::Call::~Call() {
  MutexLock lock(&state_->mutex_);
  state_->calls_.erase(begun_);
  if (state_->calls_.empty()) state_->idle_cond_.SignalAll();
}

absl::optional<DeviceState::Begun> DeviceState::Overdue() const {
  const auto now = std::chrono::steady_clock::now();
  for (const Begun& call : calls_) {
    if (absl::FromChrono(now - call.at) > call.limit) return call;
  }
  return absl::nullopt;
}

void DeviceState::Watch() {
  absl::optional<Begun> overdue;
  {
    MutexLock lock(&mutex_);
    while (!ends_ && !overdue.has_value()) {
      ends_cond_.WaitWithTimeout(&mutex_, timeout_ / kLooks);
      overdue = Overdue();
    }
    if (ends_) return;
  }
  Hang(absl::UnavailableError(absl::StrCat(name_, ": a call of CUDA that ", overdue->doing,
                                           " has not returned within ",
                                           absl::ToDoubleSeconds(overdue->limit), " s")));
}

// Those who look for leaks see that it is known.
void KeepForEver(std::shared_ptr<void> thing) {
  static auto* const mutex = new Mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  MutexLock lock(mutex);
  kept->push_back(std::move(thing));
}

std::shared_ptr<DeviceState> SharedGpus::Of(const std::string& name, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  std::shared_ptr<DeviceState>& state = states_[name];
  if (state == nullptr) {
    state = std::make_shared<DeviceState>(name, timeout, least_making_timeout_);
  }
  return state;
}

}  // namespace millrace::worker
