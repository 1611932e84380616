#include "coordinator/checkpoint/best_tries.h"

#include <utility>

#include "coordinator/checkpoint/checkpoint_files.h"

namespace millrace::coordinator {

void BestTries::Begin(const BestEvaluation& evaluation, const std::string& cut_id, absl::Time now) {
  best_.emplace();
  best_->evaluation = evaluation;
  best_->cut_id = cut_id;
  best_->since = best_->due = now;
  if (!failure_.ok() && now < not_before_) best_->result = failure_;
}

void BestTries::Failed(const absl::Status& status, absl::Time now) {
  best_->due = now + best_->backoff.Next();
  const bool is_in_vain = IsAnotherRuns(status) || !failure_.ok();
  if (is_in_vain || best_->due - best_->since > kPatience) End(status, now);
}

void BestTries::End(absl::StatusOr<CheckpointInfo> result, absl::Time now) {
  failure_ = result.status();
  if (result.ok()) {
    pause_.Reset();
  } else {
    not_before_ = now + pause_.Next();
  }
  best_->result = std::move(result);
}

absl::optional<absl::StatusOr<CheckpointInfo>> BestTries::TakeResult() {
  if (!best_ || !best_->result) return absl::nullopt;
  auto result = *std::move(best_->result);
  best_.reset();
  return result;
}

}  // namespace millrace::coordinator
