#include "ps/store/version_rule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps/store/reduction.h"

namespace millrace::ps {

VersionSteps StepsOfVersion(uint64_t version, uint64_t replicas, uint64_t total_steps) {
  // Divided rather than multiplied, so that no version overflows.
  if (version > total_steps / replicas) return {total_steps, total_steps};
  const uint64_t begin = version * replicas;
  return {begin, begin + std::min(replicas, total_steps - begin)};
}

VersionRule::VersionRule(const UpdateTools& tools, uint64_t replicas, uint64_t total_steps,
                         const std::vector<PushPtr>& held)
    : tools_(tools), replicas_(replicas), total_steps_(total_steps) {
  for (const PushPtr& push : held) held_[push->step()] = push;
}

absl::Status VersionRule::Admit(const ShardState& state, uint64_t step) const {
  const uint64_t version = step / replicas_;
  if (version <= state.version) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("step ", step, " is contribution ", step % replicas_, " to version ", version,
                   ", and the shard is at version ", state.version, "; pull version ", version,
                   " first, which waits for it"));
}

bool VersionRule::Wants(const ShardState& state, uint64_t step) const {
  return !state.applied.Contains(step) && !held_.contains(step);
}

void VersionRule::Completed(const ShardState& state, const PushPtr& push,
                            std::vector<Answered>* answered) {
  if (state.applied.Contains(push->step())) {
    answered->push_back({push, PushResponse::ALREADY_APPLIED});
    return;
  }
  const bool added = held_.emplace(push->step(), push).second;
  const VersionSteps steps = StepsOfVersion(state.version, replicas_, total_steps_);
  if (added && held_.size() == steps.end - steps.begin) {
    last_ = push;
  } else {
    answered->push_back({push, PushResponse::HELD});
  }
}

absl::optional<Work> VersionRule::Next(const StatePtr& state, std::vector<Answered>* /*answered*/) {
  if (last_ == nullptr || computing_) return absl::nullopt;
  computing_ = true;
  Work work;
  work.update = std::make_shared<StagedUpdate>(tools_, state);
  work.elements = tools_.layout->elements();
  work.compute = [layout = tools_.layout, update = work.update, contributions = Held()] {
    ReduceInto(*layout, contributions, update.get());
  };
  return work;
}

absl::optional<Computed> VersionRule::Done(const Work& /*work*/) {
  Computed computed;
  for (const auto& [step, push] : held_) computed.steps.push_back(step);
  computed.answered.push_back({std::move(last_), PushResponse::APPLIED});
  held_.clear();
  last_.reset();
  computing_ = false;
  return computed;
}

std::vector<PushPtr> VersionRule::Held() const {
  std::vector<PushPtr> held;
  for (const auto& [step, push] : held_) held.push_back(push);
  return held;
}

}  // namespace millrace::ps
