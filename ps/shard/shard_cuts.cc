// What a shard knows of its cuts, and what of it is in the database.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_internal.h"

namespace millrace::ps {
namespace {

// `to` with the frozen blocks of `from`, another state of the shard: they have the same values, and
// a second copy of them would be counted nowhere.
StatePtr WithFrozenBlocks(const BlockLayout& layout, const ShardState& from, const ShardState& to) {
  auto state = std::make_shared<ShardState>(to);
  for (size_t i = 0; i < layout.blocks().size(); ++i) {
    if (layout.blocks()[i].frozen) state->blocks[i] = from.blocks[i];
  }
  return state;
}

}  // namespace

absl::Status Shard::PlanCuts(uint64_t generation, uint64_t every_versions, uint64_t also_at) {
  if ((every_versions & (every_versions - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("every_versions: ", every_versions, "; must be 0 or a power of two"));
  }
  MutexLock lock(&mutex_);
  MILLRACE_RETURN_IF_ERROR(CheckGeneration(generation));
  if (plan_.spec.replicas() != 0) cut_plan_.Set(every_versions, also_at);
  return absl::OkStatus();
}

// true: it is done already.
absl::StatusOr<bool> Shard::CheckStepBack(uint64_t generation, const CutName& cut,
                                          uint64_t epoch) const {
  MILLRACE_RETURN_IF_ERROR(CheckGeneration(generation));
  if (plan_.spec.replicas() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " is asynchronous: it has no versions to step back to"));
  }
  if (retired_) return Ended();
  if (epoch > epoch_) return false;
  if (epoch == epoch_ && cut.epoch() == stepped_back_to_.epoch() &&
      cut.version() == stepped_back_to_.version()) {
    return true;
  }
  return absl::InvalidArgumentError(absl::StrCat("epoch: ", epoch, "; ", name_, " is at epoch ",
                                                 epoch_, ", and must be told one above it"));
}

absl::StatusOr<bool> Shard::SteppedBack(uint64_t generation, const CutName& cut,
                                        uint64_t epoch) const {
  MutexLock lock(&mutex_);
  return CheckStepBack(generation, cut, epoch);
}

absl::Status Shard::StepBack(uint64_t generation, ShardContents contents) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    MILLRACE_ASSIGN_OR_RETURN(const bool done,
                              CheckStepBack(generation, contents.stepped_back_to, contents.epoch));
    if (done) return absl::OkStatus();
    const absl::Status gone = absl::FailedPreconditionError(
        absl::StrCat(name_, " stepped back to version ", contents.state->version,
                     "; fetch the job's routing again"));
    DropPushes(gone, &effects);
    GiveUp(gone, &effects);
    WakeAll(gone, &effects);
    DropPins(&effects);
    effects.released.push_back(cut_plan_.Forget());
    StatePtr state = WithFrozenBlocks(plan_.layout, *state_, *contents.state);
    effects.released.push_back(std::move(contents.state));
    effects.released.push_back(std::exchange(state_, std::move(state)));
    effects.released.push_back(std::exchange(previous_, nullptr));
    epoch_ = contents.epoch;
    stepped_back_to_ = contents.stepped_back_to;
    ReplaceRule(&effects);
    WriteRoot();
    BoundOldStates(&effects);
  }
  Run(std::move(effects));
  return absl::OkStatus();
}

void Shard::ReplaceRule(Effects* effects) {
  effects->released.push_back(std::shared_ptr<const StepRule>(std::move(rule_)));
  rule_ = MakeRule(tools_, plan_.spec, /*held=*/{});
  ++rule_number_;
}

void Shard::GiveUp(const absl::Status& reason, Effects* effects) {
  for (const PushPtr& push : rule_->GiveUp()) {
    effects->answers.emplace_back(push->answer(),
                                  MakeRefusal(push->push_id(), reason, state_->version));
  }
}

void Shard::SetCutReport(CutReport report) {
  MutexLock lock(&mutex_);
  cut_report_ = std::move(report);
}

void Shard::AllowCuts(bool allowed) {
  MutexLock lock(&mutex_);
  cut_plan_.Allow(allowed);
}

bool Shard::ListenForChange(uint64_t version) {
  MutexLock lock(&mutex_);
  listening_ = state_->version == version;
  return !listening_;
}

absl::optional<CapturedCut> Shard::TakeCapturedCut() {
  MutexLock lock(&mutex_);
  return cut_plan_.Take();
}

ShardTerm Shard::term() const {
  MutexLock lock(&mutex_);
  ShardTerm term = {generation_, epoch_, stepped_back_to_};
  term.retired = retired_;
  if (retired_) {
    term.retired_version = state_->version;
    term.retired_applied = state_->applied.ToProto();
  }
  return term;
}

bool Shard::IsStored(const ShardTerm& term) const {
  MutexLock lock(&mutex_);
  return stored_.generation >= term.generation && stored_.epoch >= term.epoch &&
         stored_.retired == term.retired;
}

void Shard::SetStored(const ShardTerm& term) {
  MutexLock lock(&mutex_);
  stored_ = term;
}

bool Shard::RetirementIsStored() const {
  MutexLock lock(&mutex_);
  return stored_.retired;
}

}  // namespace millrace::ps
