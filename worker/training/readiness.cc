#include "worker/training/readiness.h"

namespace millrace::worker {

void Readiness::Ask() {
  routed_ = true;
  asked_ = true;
  backoff_.Reset();
}

void Readiness::AskAgain() {
  if (routed_) Ask();
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
  retry_at_ = status.ok() ? absl::InfiniteFuture() : now + backoff_.Next();
  return tell;
}

}  // namespace millrace::worker
