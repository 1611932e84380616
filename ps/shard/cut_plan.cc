#include "ps/shard/cut_plan.h"

#include <utility>

namespace millrace::ps {

bool CutPlan::Published(uint64_t epoch, const StatePtr& state) {
  const uint64_t version = state->version;
  const bool regular = allowed_ && every_versions_ != 0 && version % every_versions_ == 0;
  if (version != also_at_ && (captured_.state != nullptr || !regular)) return false;
  captured_ = {epoch, state};
  return true;
}

absl::optional<CapturedCut> CutPlan::Take() {
  if (captured_.state == nullptr) return absl::nullopt;
  allowed_ = false;
  return std::exchange(captured_, {});
}

StatePtr CutPlan::Forget() { return std::exchange(captured_, {}).state; }

}  // namespace millrace::ps
