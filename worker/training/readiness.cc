#include "worker/training/readiness.h"

#include <algorithm>

namespace millrace::worker {
namespace {

constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLastPause = absl::Seconds(30);

}  // namespace

void Readiness::Ask() {
  routed_ = true;
  asked_ = true;
  pause_ = kFirstPause;
}

void Readiness::Hush() { routed_ = asked_ = answering_ = false; }

absl::Time Readiness::WaitsUntil() const { return routed_ ? retry_at_ : absl::InfiniteFuture(); }

void Readiness::Begin() {
  answering_ = asked_;
  asked_ = false;
}

bool Readiness::Conclude(const absl::Status& status, absl::Time now) {
  const bool tell = answering_ || (routed_ && status != status_);
  answering_ = false;
  status_ = status;
  if (status.ok()) {
    retry_at_ = absl::InfiniteFuture();
  } else {
    retry_at_ = now + pause_;
    pause_ = std::min(2 * pause_, kLastPause);
  }
  return tell;
}

}  // namespace millrace::worker
