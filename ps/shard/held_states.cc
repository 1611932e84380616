#include "ps/shard/held_states.h"

#include <algorithm>

namespace millrace::ps {

std::shared_ptr<StateHold> HeldStates::Hold(StatePtr state) {
  while (!holds_.empty() && holds_.front().expired()) holds_.pop_front();
  auto hold = std::make_shared<StateHold>(std::move(state));
  holds_.push_back(hold);
  return hold;
}

std::vector<const ShardState*> HeldStates::Old(const IsKept& is_kept) {
  holds_.erase(
      std::remove_if(holds_.begin(), holds_.end(), [](const auto& hold) { return hold.expired(); }),
      holds_.end());
  std::vector<const ShardState*> old;
  const auto add = [&](const ShardState* state) {
    if (state == nullptr || is_kept(state)) return;
    if (std::find(old.begin(), old.end(), state) == old.end()) old.push_back(state);
  };
  for (const auto& weak : holds_) {
    if (const auto hold = weak.lock()) add(hold->Get().get());
  }
  for (const StatePtr& state : groups_.States()) add(state.get());
  return old;
}

size_t HeldStates::CountOld(const IsKept& is_kept) {
  return holds_.empty() && groups_.empty() ? 0 : Old(is_kept).size();
}

std::vector<StatePtr> HeldStates::TakeBackOldest(const IsKept& is_kept) {
  std::vector<StatePtr> released;
  const std::vector<const ShardState*> old = Old(is_kept);
  groups_.EndAll(&released);
  if (old.empty()) return released;
  for (const auto& weak : holds_) {
    const auto hold = weak.lock();
    if (hold != nullptr && hold->Get().get() == old.front()) released.push_back(hold->TakeBack());
  }
  return released;
}

}  // namespace millrace::ps
