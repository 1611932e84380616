// Why applying a gradient before all of it is there is safe, and worth it.
//
// Worth it: a gradient that has just been received is in the processor's cache. Applied at once it
// costs little more than receiving it; applied when the push is complete it has to come from memory
// again, and everyone waits for that.
//
// Safe: one push at a time has the turn. Its pieces are applied to a StagedUpdate, which reads the
// published state and writes blocks that nobody else can see. The published state cannot change
// meanwhile, since only the holder of the turn is ever published. So:
//
//  - Atomic. When every element has been computed, one pointer swap under the shard's lock makes
//    all blocks, the applied set and the version visible together. Before it nothing was; a push
//    that is dropped (its stream ended, it was voided or fenced) just loses its StagedUpdate.
//  - Exactly once. Each element of a push arrives once (PushAssembly), each message is given out as
//    work once for an update (`claimed_`), and the update is published when the elements computed
//    for it add up to those that are pushed. A push whose step is in the published applied set is
//    never given the turn, and that set cannot change while it has the turn.
//    Where an optimizer takes norms of variables, an element counts when its gradient is there, and
//    the thread that completes a variable counts its elements when it has updated all of it: so
//    every variable is updated by then as well.
//  - The right version. An update is computed for base version + 1, which is the version that its
//    publication makes.
//
// No push waits for a stalled one: where another push is complete first, it takes the turn, and the
// stalled one's update is dropped. Every unfinished push keeps its received slices for that reason:
// the one that was overtaken is computed again, from all of them, when it is complete. It does not
// get the turn before: it is slower than others, so it would be overtaken again and again, computed
// each time from its beginning, and keep those that follow from being applied while they arrive.
// Work on the dropped update that is still running harms nobody: the update lives as long as the
// work, and Done() sees that it is not the current one.
//
// A complete holder keeps the turn: all that is missing is computation, by threads that are at it.
#include "ps/shard/turn_rule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"

namespace millrace::ps {

// No step is handed out that far ahead of one that is not done; and were such steps taken without
// end, what a shard says of itself would become too large for a message.
absl::Status TurnRule::Admit(const ShardState& state, uint64_t step) const {
  const uint64_t first = state.applied.watermark();
  if (step <= first + kMaxStalenessBound) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("step: ", step, "; must be at most ",
                                            kMaxStalenessBound, " after step ", first,
                                            ", the first that the shard lacks"));
}

bool TurnRule::Wants(const ShardState& state, uint64_t step) const {
  return !state.applied.Contains(step);
}

void TurnRule::Started(const PushPtr& push) { unfinished_.push_back(push); }

void TurnRule::Completed(const ShardState& state, const PushPtr& push,
                         std::vector<Answered>* answered) {
  unfinished_.remove(push);
  if (push == holder_) {
    holder_complete_ = true;
  } else if (state.applied.Contains(push->step())) {
    answered->push_back({push, PushResponse::ALREADY_APPLIED});
  } else {
    complete_.push_back(push);
    if (!holder_complete_) {
      unfinished_.remove(holder_);  // Overtaken.
      DropTurn();
    }
  }
}

void TurnRule::Discarded(const PushPtr& push) {
  unfinished_.remove(push);
  if (push == holder_) DropTurn();
}

std::vector<PushPtr> TurnRule::Fence() {
  std::vector<PushPtr> complete(complete_.begin(), complete_.end());
  if (holder_complete_) complete.push_back(holder_);
  complete_.clear();
  unfinished_.clear();
  DropTurn();
  return complete;
}

void TurnRule::DropTurn() {
  holder_.reset();
  holder_complete_ = false;
  Release(std::move(update_));
  claimed_ = 0;
  staged_elements_ = 0;
}

void TurnRule::PassTurn(const StatePtr& state, std::vector<Answered>* answered) {
  while (holder_ == nullptr && !complete_.empty()) {
    PushPtr push = std::move(complete_.front());
    complete_.pop_front();
    if (state->applied.Contains(push->step())) {
      answered->push_back({std::move(push), PushResponse::ALREADY_APPLIED});
    } else {
      holder_ = std::move(push);
      holder_complete_ = true;
    }
  }
  for (const PushPtr& push : unfinished_) {
    if (holder_ != nullptr) break;
    if (state->applied.Contains(push->step())) {
      Release(std::make_shared<std::vector<PushPieces>>(push->TakePieces()));
    } else {
      holder_ = push;
    }
  }
  if (holder_ != nullptr) update_ = std::make_shared<StagedUpdate>(tools_, state);
}

absl::optional<Work> TurnRule::Next(const StatePtr& state, std::vector<Answered>* answered) {
  if (holder_ == nullptr) PassTurn(state, answered);
  if (holder_ == nullptr) return absl::nullopt;
  const std::vector<PushPieces>& pieces = holder_->pieces();
  std::vector<PushPieces> claimed;
  Work work;
  while (claimed_ < pieces.size() && work.elements < kWorkElements) {
    claimed.push_back(pieces[claimed_++]);
    work.elements += ElementCount(claimed.back());
  }
  if (claimed.empty()) return absl::nullopt;
  work.update = update_;
  work.compute = [update = update_, claimed = std::move(claimed)] {
    for (const PushPieces& message : claimed) {
      for (const WirePiece& piece : *message) update->Apply(piece);
    }
  };
  return work;
}

absl::optional<Computed> TurnRule::Done(const Work& work) {
  if (work.update != update_) return absl::nullopt;  // The turn was taken from its push.
  staged_elements_ += work.elements;
  if (staged_elements_ < tools_.layout->pushed_elements()) return absl::nullopt;
  Computed computed;
  computed.steps.push_back(holder_->step());
  computed.answered.push_back({std::move(holder_), PushResponse::APPLIED});
  DropTurn();
  return computed;
}

}  // namespace millrace::ps
