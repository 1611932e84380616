// What training and checkpoints need of each other: barriers, cuts, and the job's end.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/run/trainer.h"

namespace millrace::coordinator {

void Trainer::AttachCheckpointer(const Attached& attached, ShardGroup& shards) {
  if (checkpointer_ == nullptr) return;
  const auto numbers = job_.record().damaged_checkpoints();
  const std::set<uint64_t> damaged(numbers.begin(), numbers.end());
  ForgetDamagedBest(damaged);
  checkpointer_->Attach({.shards = &shards,
                         .count = static_cast<int>(shards.placements().size()),
                         .generation = generation_,
                         .epoch = epoch_,
                         .watermark = attached.merged.done.watermark(),
                         .is_remade = attached.load.has_value(),
                         .damaged = damaged});
}

uint64_t Trainer::BarrierFrom(uint64_t step, const Evaluator& evaluator) const {
  const uint64_t barrier = evaluator.BarrierFrom(step);
  if (checkpointer_ == nullptr) return barrier;
  return std::min(barrier, checkpointer_->BarrierFrom(step));
}

void Trainer::AdvanceCheckpoints(const Dispatcher::Progress& progress) {
  if (checkpointer_ == nullptr) return;
  checkpointer_->Advance({.applied = progress.applied,
                          .watermark = progress.watermark,
                          .newest_version = cuts_.newest_version(),
                          .version_ahead = cuts_.VersionAhead(),
                          .shards = seen_,
                          .is_deserted = environment_.registry->Workers().empty()});
  reporter_.TellCheckpoints(*checkpointer_);
  checkpoint_wake_ = std::max(checkpointer_->next_step(), progress.watermark + 1);
  inbox_.WakeAt(std::min(checkpoint_wake_, norms_.due_at()));
  if (std::exchange(wanted_version_, checkpointer_->wanted_version()) != wanted_version_) {
    poll_due_ = clock_->Now();  // The shards are to hear of it before they are there.
  }
  cuts_.Want(wanted_version_);
  cuts_.Hold(checkpointer_->held_cut());
  if (checkpointer_->awaits_cut()) poll_due_ = std::min(poll_due_, clock_->Now() + PollPeriod());
  if (checkpointer_->WantsBarrier() && !progress.at_barrier && frontier_ <= barrier_) {
    barrier_ = environment_.dispatcher->SetBarrierHere(job_.id(), frontier_, barrier_);
  }
}

// Beside an evaluation of the same state, or alone. If that does not work the job goes on.
absl::optional<absl::Status> Trainer::PinForCheckpoint(const Dispatcher::Progress& progress,
                                                       ShardGroup& shards) {
  AdvanceCheckpoints(progress);
  if (checkpointer_ == nullptr || !checkpointer_->IsDueAt(barrier_)) return absl::nullopt;
  job_.Spend(TimeUse::kCheckpointing);
  absl::Status status;
  for (const std::string& name : checkpointer_->LastCutIds()) {
    if (status.ok()) status = shards.UnpinCut(generation_, name);
  }
  if (status.ok()) {
    checkpointer_->NameCut();
    const auto pinned = shards.PinCut(generation_, checkpointer_->cut_id());
    status = pinned.status();
    if (pinned.ok()) {
      const BarrierCheck check = CheckBarrier(*pinned, barrier_);
      if (check.state == BarrierState::kReached) {
        const absl::Duration held = clock_->Now() - std::min(progress.held_since, clock_->Now());
        checkpointer_->Pinned(barrier_, held);
        return status;
      }
      status = absl::AbortedError(
          absl::StrCat(shards.NameOf(check.shard), " has not exactly the steps before ", barrier_));
    }
  }
  checkpointer_->NotPinned(status);
  return status;
}

// What is missing to a checkpoint is no reason not to end.
Trainer::Next Trainer::CheckpointTheEnd() {
  if (checkpointer_ == nullptr || checkpointer_->MayEnd(last_cut_)) return Next::kEnd;
  const absl::Time since = blocked_ && waits_for_checkpoint_ ? blocked_->since : clock_->Now();
  blocked_ = Dispatcher::Stall{checkpointer_->WhatTheEndWaitsFor(), since};
  waits_for_checkpoint_ = true;
  barrier_due_ = absl::InfinitePast();  // Whatever wakes the runner may be the end of it.
  return Next::kWait;
}

}  // namespace millrace::coordinator
