// What clients can make a shard hold: gradients under way, old states that slow pulls keep, and
// copies of values that go out in fewer bits than the shard has them in.
//
// All of it is counted, against what the shard reserved when it was made and against the spare
// memory that the shards of a server share. A gradient finds room in either or is refused, before
// more is made of it than came: one of 16 bits has its room before it is widened. A copy, which is
// one message's and gone when the client has read it, is refused while more is used than there is.
// An old state is taken back when others need the room.
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_internal.h"

namespace millrace::ps {

absl::StatusOr<PlacedPieces> Shard::Widened(uint64_t stream, const PushRequest& header,
                                            PlacedPieces message, CountedBytes::Room* room) {
  const bool gathered = plan_.spec.replicas() != 0;
  const uint64_t bytes = BytesToWiden(plan_.layout, gathered, message);
  if (bytes == 0) return message;
  {
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(CheckPush(stream, header));
    MILLRACE_RETURN_IF_ERROR(CheckRoom(header, bytes));
    *room = received_.Reserve(bytes);
    CountSpare();
  }
  WidenKept(plan_.layout, gathered, &message);
  return message;
}

absl::StatusOr<std::shared_ptr<char[]>> Shard::MakeCopy(uint64_t bytes) {
  // Before the lock; it takes no memory before it is written to.
  auto copy = std::make_shared_for_overwrite<char[]>(bytes);
  MutexLock lock(&mutex_);
  CountSpare();
  if (spare_.IsOverdrawn()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server has no memory for ", bytes, " bytes of values of ", name_,
                     " as rows or in another encoding than FLOAT32, beside gradients that are not "
                     "applied yet and what ",
                     "other pulls keep; pull again later"));
  }
  copy = copies_.Count(std::move(copy), bytes);
  CountSpare();
  return copy;
}

absl::Status Shard::CheckRoom(const PushRequest& header, uint64_t bytes) const {
  const bool is_new = pushes_.Find(header.push_id()) == nullptr;
  if (spare_.HasRoom(GradientBytes() + bytes, is_new)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("push ", header.push_id(), " of step ", header.step(), " to ", name_,
                   ": the server has no memory for more gradients that are not applied yet, at ",
                   GradientBytes(), " bytes of this shard's and ", spare_.others(),
                   " bytes of others; push the step again later"));
}

uint64_t Shard::GradientBytes() const { return received_.bytes() + pushes_.memory_bytes(); }

void Shard::CountSpare() {
  spare_.Set(GradientBytes(), old_states_ * (state_bytes_ - frozen_bytes_) + copies_.bytes());
}

void Shard::BoundOldStates(Effects* effects) {
  absl::flat_hash_set<const ShardState*> kept = {state_.get(), previous_.get()};
  for (const auto& [cut_id, state] : pinned_) kept.insert(state.get());
  const auto is_kept = [&kept](const ShardState* state) { return kept.contains(state); };
  while (true) {
    old_states_ = held_states_.CountOld(is_kept);
    CountSpare();
    if (old_states_ == 0 || !spare_.IsOverdrawn()) return;
    for (StatePtr& state : held_states_.TakeBackOldest(is_kept)) {
      effects->released.push_back(std::move(state));
    }
  }
}

uint64_t Shard::MemoryBytes() const {
  absl::flat_hash_set<const ShardState*> states;
  if (HasValues()) states.insert(state_.get());
  if (previous_ != nullptr) states.insert(previous_.get());
  for (const auto& [cut_id, state] : pinned_) states.insert(state.get());
  const uint64_t all = states.size() + old_states_;
  const uint64_t frozen = all == 0 ? 0 : frozen_bytes_;  // They have the same blocks.
  return frozen + all * (state_bytes_ - frozen_bytes_) + GradientBytes() + copies_.bytes();
}

}  // namespace millrace::ps
