// A cut serves only when all shards have it, so all must take the same ones. They do so by the
// version's number: each takes those that are multiples of one power of two, without having to hear
// of each cut in time. When the power changes, shards that hear of it later still share the cuts at
// the multiples of the larger one.
//
// A shard may leave a cut out, because its disk is slow or because it holds two cuts already that
// are newer than the common one. Shards that leave out different ones would have no common cut any
// more; so where none has come for long, all are asked for one at a version that lies ahead of them
// all, which they never leave out.
#include "coordinator/shards/cut_planner.h"

#include <algorithm>

#include "common/proto_duration.h"
#include "coordinator/shards/attach_decision.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kFirstCutAfter = absl::Milliseconds(500);
// A cut may take a tenth of the time.
constexpr int kCutShare = 10;
// How much a new measurement of the time of a version counts.
constexpr double kNewWeight = 0.5;
// A common cut that is this many times overdue is asked for by name.
constexpr int kOverdue = 4;
// The version asked for is this far ahead, so that all shards hear of it before.
constexpr absl::Duration kAhead = absl::Seconds(2);
constexpr int kLargestPower = 40;

}  // namespace

uint64_t EveryVersions(absl::Duration version_time, absl::Duration target) {
  if (version_time <= absl::ZeroDuration()) return 1;
  int power = 0;
  while (power < kLargestPower && version_time * (uint64_t{2} << power) <= target) ++power;
  return uint64_t{1} << power;
}

void CutPlanner::Start(absl::Span<const ShardStatus> shards, uint64_t catch_up, absl::Time now) {
  started_ = version_at_ = common_at_ = now;
  wanted_ = 0;
  held_.reset();
  asked_ = catch_up;
  newest_ = 0;
  SeeVersions(shards);
  common_ = NewestCommonCut(shards);
}

void CutPlanner::SeeVersions(absl::Span<const ShardStatus> shards) {
  version_ = shards[0].version();
  for (const ShardStatus& shard : shards) {
    version_ = std::min(version_, shard.version());
    newest_ = std::max(newest_, shard.version());
  }
}

void CutPlanner::Observe(absl::Span<const ShardStatus> shards, absl::Time now) {
  const uint64_t before = version_;
  SeeVersions(shards);
  if (version_ > before) {
    const absl::Duration measured = (now - version_at_) / static_cast<double>(version_ - before);
    version_time_ = version_time_ == absl::ZeroDuration()
                        ? measured
                        : kNewWeight * measured + (1 - kNewWeight) * version_time_;
    version_at_ = now;
  }
  cut_duration_ = absl::ZeroDuration();
  for (const ShardStatus& shard : shards) {
    cut_duration_ = std::max(cut_duration_, FromProto(shard.cut_duration()));
  }
  const CutName common = NewestCommonCut(shards);
  if (common.version() != common_.version() || common.epoch() != common_.epoch()) common_at_ = now;
  common_ = common;
  AskIfOverdue(now);
}

// What was asked for stays so until all shards have passed it.
void CutPlanner::AskIfOverdue(absl::Time now) {
  if (asked_ > version_ || version_time_ == absl::ZeroDuration()) return;
  if (now - common_at_ <= kOverdue * std::max(Target(now), version_time_)) return;
  asked_ = VersionAhead();
  common_at_ = now;  // It has its time.
}

uint64_t CutPlanner::VersionAhead() const {
  if (version_time_ == absl::ZeroDuration()) return newest_ + 1;
  return newest_ + 1 + static_cast<uint64_t>(kAhead / version_time_);
}

absl::Duration CutPlanner::Target(absl::Time now) const {
  const absl::Duration soon = std::max(kFirstCutAfter, now - started_);
  return std::max(std::min(period_, soon), kCutShare * cut_duration_);
}

PlanCutsRequest CutPlanner::Plan(uint64_t generation, absl::Time now) const {
  PlanCutsRequest plan;
  plan.set_generation(generation);
  plan.set_every_versions(EveryVersions(version_time_, Target(now)));
  const bool holds = held_ && held_->epoch() == common_.epoch() && held_->version() > 0 &&
                     held_->version() < common_.version();
  const CutName& common = holds ? *held_ : common_;
  if (common.version() > 0) *plan.mutable_common() = common;
  for (const uint64_t version : {asked_, wanted_}) {
    if (version <= version_) continue;
    if (plan.also_at() == 0 || version < plan.also_at()) plan.set_also_at(version);
  }
  return plan;
}

}  // namespace millrace::coordinator
