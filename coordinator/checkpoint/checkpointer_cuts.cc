// Which cut of a synchronous job a checkpoint is of. The shards are asked for one in time; where
// none comes, or somebody wants to stop, an older one is taken that is newer than what is saved.
#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/checkpoint/checkpointer.h"

namespace millrace::coordinator {
namespace {

// How long a cut that all shards have is waited for before an older one is taken: by somebody who
// wants to stop, and otherwise.
constexpr absl::Duration kUrgentPatience = absl::Seconds(5);
constexpr absl::Duration kCutPatience = absl::Minutes(2);
// The same of the first, where nobody is there who could do a step.
constexpr absl::Duration kDesertedPatience = absl::Milliseconds(500);
// A cut that has not come by then after it was asked for is asked for anew.
constexpr absl::Duration kAskAgain = absl::Seconds(5);
// The shards have opened a cut that long after they were told to write it.
constexpr absl::Duration kOpenedAfter = absl::Seconds(10);

uint64_t LowestVersion(absl::Span<const ShardStatus> shards) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  for (const ShardStatus& shard : shards) lowest = std::min(lowest, shard.version());
  return lowest;
}

}  // namespace

// One that is due by steps was asked for before.
void Checkpointer::AwaitCut(const Situation& situation) {
  phase_ = Phase::kAwaitingCut;
  const bool by_steps = attempt_->requests.empty() && situation.watermark >= policy_.next_step();
  attempt_->from_version = (by_steps ? policy_.next_step() : situation.watermark) / replicas_;
  wanted_version_ = by_steps ? attempt_->from_version : situation.version_ahead;
  attempt_->asked = attempt_->begun;
}

// So that the shards hear of the version before they have it.
void Checkpointer::WantNextVersion(const Situation& situation) {
  if (replicas_ == 0) return;
  const bool is_ahead = policy_.next_step() < total_steps_ &&
                        policy_.next_step() / replicas_ > situation.newest_version;
  wanted_version_ = is_ahead ? policy_.next_step() / replicas_ : 0;
}

// Who wants to stop does not wait for this one's end first, which may be long in coming.
void Checkpointer::JoinUrgent() {
  for (CheckpointRequest& request : requests_->TakeUrgent()) {
    attempt_->requests.push_back(std::move(request));
  }
  if (attempt_->urgent_since) return;
  for (const CheckpointRequest& request : attempt_->requests) {
    if (request.urgent) attempt_->urgent_since = clock_->Now();
  }
}

// One that is newer than what is saved.
bool Checkpointer::FindCut(const Situation& situation) {
  if (situation.shards.empty()) return false;
  const CheckpointInfo* const saved = NewestHere();
  const uint64_t newer = saved == nullptr ? 0 : saved->step() / replicas_ + 1;
  attempt_->cut =
      OldestCommonCut(situation.shards, attached_.epoch, std::max(attempt_->from_version, newer));
  if (attempt_->cut) {
    wanted_version_ = 0;
    BeginFiles();
    return true;
  }
  if (IsTired(situation)) return TakeOlderCut(situation);
  const absl::Time now = clock_->Now();
  const bool passed = wanted_version_ <= LowestVersion(situation.shards);
  if (passed && now - attempt_->asked > kAskAgain) {
    wanted_version_ = situation.version_ahead;
    attempt_->asked = now;
  }
  return false;
}

// Of waiting for the cut.
bool Checkpointer::IsTired(const Situation& situation) const {
  absl::Duration patience = situation.is_deserted ? kDesertedPatience : kUrgentPatience;
  if (!attempt_->urgent_since) patience = kCutPatience;
  return clock_->Now() - attempt_->urgent_since.value_or(attempt_->begun) > patience;
}

// Nobody gets on, or no cut comes: the newest that there is, where that is worth it.
bool Checkpointer::TakeOlderCut(const Situation& situation) {
  absl::optional<CutName> newest;
  while (auto cut = OldestCommonCut(situation.shards, attached_.epoch,
                                    newest ? newest->version() + 1 : uint64_t{1})) {
    newest = cut;
  }
  wanted_version_ = 0;
  const CheckpointInfo* const saved = NewestHere();
  if (newest && (saved == nullptr || newest->version() * replicas_ > saved->step())) {
    attempt_->cut = newest;
    BeginFiles();
    return true;
  }
  StopWaiting(situation);
  return false;
}

// There is no state that could be saved.
void Checkpointer::StopWaiting(const Situation& situation) {
  policy_.Began(situation.watermark, clock_->Now());
  const CheckpointInfo* const saved = NewestHere();
  absl::StatusOr<CheckpointInfo> result =
      absl::UnavailableError("no state of all shards is on their disks yet; try again");
  if (saved != nullptr) result = *saved;
  Answer(std::exchange(attempt_->requests, {}), result);
  End();
}

absl::optional<CutName> Checkpointer::held_cut() const {
  const bool opens =
      phase_ == Phase::kBeginning ||
      (phase_ == Phase::kWriting && clock_->Now() - attempt_->writing_since < kOpenedAfter);
  return opens ? attempt_->cut : absl::nullopt;
}

}  // namespace millrace::coordinator
