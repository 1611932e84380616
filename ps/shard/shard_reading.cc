// How a shard's states are read: by pulls, which may wait for a version, and under pinned cuts.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_internal.h"
#include "ps/shard/version_rule.h"

namespace millrace::ps {
namespace {

// Named in a message at most.
constexpr size_t kNamedSteps = 8;
// Each may keep a whole state.
constexpr size_t kMaxPins = 4;

}  // namespace

std::shared_ptr<StateHold> Shard::Hold(StatePtr state) {
  MutexLock lock(&mutex_);
  return held_states_.Hold(std::move(state));
}

uint64_t Shard::Read(const PullRequest& request, StateCallback done) {
  absl::StatusOr<StatePtr> state;
  uint64_t waiter = 0;
  bool read = false;
  {
    MutexLock lock(&mutex_);
    state = FindState(request);
    uint64_t version = request.version();
    if (state.ok() && *state != nullptr && (*state)->blocks.empty()) {
      version = (*state)->version;
      state = nullptr;
      read = !std::exchange(reading_, true);
    }
    if (state.ok() && *state == nullptr) {
      waiter = ++last_waiter_;
      waiters_[waiter] = {version, std::move(done)};
    }
  }
  if (waiter == 0) done(std::move(state));
  if (read) reader_();
  return waiter;
}

// nullptr: it is to come.
absl::StatusOr<StatePtr> Shard::FindState(const PullRequest& request) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen(request.generation()));
  if (!request.cut_id().empty()) return FindPinned(request.cut_id());
  if (!HasValues()) return FindRetired(request);
  if (!request.has_version() && request.pull_group() != 0 && request.parts() > 0) {
    return held_states_.FindGroup(request, state_, now_);
  }
  if (!request.has_version() || request.version() == state_->version) return state_;
  if (request.version() > state_->version) return nullptr;
  if (previous_ != nullptr && request.version() == previous_->version) return previous_;
  return absl::AbortedError(absl::StrCat(
      "version ", request.version(), " of ", name_, " is no longer there: it is at version ",
      state_->version,
      plan_.spec.replicas() == 0 ? ", and keeps no other" : ", and keeps only the one before"));
}

absl::StatusOr<StatePtr> Shard::FindPinned(const std::string& cut_id) const {
  const auto it = pinned_.find(cut_id);
  if (it != pinned_.end()) return it->second;
  return absl::NotFoundError(absl::StrCat(name_, " has no pinned cut '", Printable(cut_id),
                                          "'; it was unpinned, or the server was restarted"));
}

absl::StatusOr<CapturedCut> Shard::Pinned(uint64_t generation, const std::string& cut_id) const {
  MutexLock lock(&mutex_);
  MILLRACE_RETURN_IF_ERROR(CheckOpen(generation));
  MILLRACE_ASSIGN_OR_RETURN(StatePtr state, FindPinned(cut_id));
  return CapturedCut{epoch_, std::move(state)};
}

void Shard::StopWaiting(uint64_t waiter, absl::StatusCode code) {
  StateCallback done;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    auto it = waiters_.find(waiter);
    if (it == waiters_.end()) return;
    done = std::move(it->second.done);
    status = absl::Status(code, WaitsFor(it->second.version));
    waiters_.erase(it);
  }
  done(std::move(status));
}

std::string Shard::WaitsFor(uint64_t version) const {
  const std::string begin = absl::StrCat("version ", version, " of ", name_,
                                         " has not come: it is at version ", state_->version);
  if (version == state_->version) {
    return absl::StrCat("the values of ", name_, " are being read from the disk; pull again");
  }
  const uint64_t replicas = plan_.spec.replicas();
  const uint64_t total = plan_.spec.total_steps();
  const VersionSteps steps =
      StepsOfVersion(state_->version, std::max<uint64_t>(replicas, 1), total);
  if (steps.begin == steps.end) return absl::StrCat(begin, ", the last one of the job");
  if (replicas == 0) return absl::StrCat(begin, " and waits for further steps");
  std::vector<uint64_t> missing;
  for (uint64_t step = steps.begin; step < steps.end && missing.size() <= kNamedSteps; ++step) {
    if (rule_->Wants(*state_, step)) missing.push_back(step);
  }
  if (missing.empty() && rule_->Measure(*state_).state == MeasureVersionResponse::MEASURED) {
    return absl::StrCat(begin, ", has all steps of it, and waits for the norm of their gradients ",
                        "over all shards");
  }
  if (missing.empty()) return absl::StrCat(begin, ", has all steps of it, and computes the next");
  const bool more = missing.size() > kNamedSteps;
  if (more) missing.pop_back();
  return absl::StrCat(begin, " and waits for step", missing.size() == 1 ? " " : "s ",
                      absl::StrJoin(missing, ", "), more ? " and more" : "");
}

void Shard::CompleteWaits(Effects* effects) {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.version != state_->version) {
      ++it;
      continue;
    }
    effects->woken.emplace_back(std::move(it->second.done), state_);
    it = waiters_.erase(it);
  }
}

void Shard::WakeAll(const absl::Status& status, Effects* effects) {
  for (auto& [id, waiter] : waiters_) effects->woken.emplace_back(std::move(waiter.done), status);
  waiters_.clear();
}

absl::StatusOr<ShardStatus> Shard::PinCut(uint64_t generation, const std::string& cut_id) {
  MutexLock lock(&mutex_);
  MILLRACE_RETURN_IF_ERROR(CheckOpen(generation));
  if (retired_) return Ended();
  if (pinned_.size() >= kMaxPins && !pinned_.contains(cut_id)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name_, ": ", kMaxPins, " cuts are pinned, each of which may keep a whole state in memory; ",
        "unpin one first"));
  }
  // A repeated call finds what the first one pinned.
  return StatusOf(*pinned_.emplace(cut_id, state_).first->second);
}

absl::Status Shard::UnpinCut(uint64_t generation, const std::string& cut_id) {
  StatePtr released;
  MutexLock lock(&mutex_);
  MILLRACE_RETURN_IF_ERROR(CheckGeneration(generation));
  auto it = pinned_.find(cut_id);
  if (it == pinned_.end()) return absl::OkStatus();
  released = std::move(it->second);
  pinned_.erase(it);
  return absl::OkStatus();
}

void Shard::DropPins(Effects* effects) {
  for (auto& [cut_id, state] : pinned_) effects->released.push_back(std::move(state));
  pinned_.clear();
}

}  // namespace millrace::ps
