// What a shard knows of its cuts, and what of it is in the database.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

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
  return {generation_, epoch_, stepped_back_to_};
}

bool Shard::IsStored(const ShardTerm& term) const {
  MutexLock lock(&mutex_);
  return stored_.generation >= term.generation && stored_.epoch >= term.epoch;
}

void Shard::SetStored(const ShardTerm& term) {
  MutexLock lock(&mutex_);
  stored_ = term;
}

}  // namespace millrace::ps
