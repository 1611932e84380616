#include "coordinator/checkpoint/last_tries.h"

#include <utility>

#include "coordinator/checkpoint/checkpoint_files.h"

namespace millrace::coordinator {

void LastTries::Begin(const absl::optional<CutName>& cut, absl::Time now) {
  begun_ = true;
  cut_ = cut;
  was_due_ = false;
  since_ = due_ = now;
  whose_directory_.clear();
  backoff_.Reset();
}

bool LastTries::IsDue(absl::Time now) {
  if (!std::exchange(was_due_, true)) since_ = now;
  return now >= due_ && !IsHopeless(now);
}

void LastTries::Failed(const absl::Status& status, absl::Time now) {
  due_ = IsAnotherRuns(status) ? absl::InfiniteFuture() : now + backoff_.Next();
  whose_directory_ = WhoseItIs(status);
}

bool LastTries::IsHopeless(absl::Time now) const {
  return now - since_ > kPatience || due_ == absl::InfiniteFuture();
}

}  // namespace millrace::coordinator
