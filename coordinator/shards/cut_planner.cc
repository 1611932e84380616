// A cut serves only when all shards have it, so all must take the same ones. They do so by the
// version's number: each takes those that are multiples of one power of two, without having to hear
// of each cut in time. When the power changes, shards that hear of it later still share the cuts at
// the multiples of the larger one.
//
// A shard may leave a cut out, because its disk is slow or because it holds two cuts already that
// are newer than the common one. Shards that leave out different ones would have no common cut any
// more; so where none has come for long, all are asked for one at a version that lies ahead of them
// all, which they never leave out. For the first one after a start nobody waits long: servers that
// are killed again and again would bring the job back to the same cut each time.
#include "coordinator/shards/cut_planner.h"

#include <algorithm>
#include <utility>

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
// A version that is wanted is this far ahead, so that all shards hear of it before.
constexpr absl::Duration kAhead = absl::Seconds(2);
// The first one after a start is asked for so far ahead: the shards hear of it at once.
constexpr absl::Duration kFirstAhead = absl::Milliseconds(200);
// For how long the shards are asked often for the first common cut after a start.
constexpr absl::Duration kAsksOften = absl::Seconds(5);
constexpr int kLargestPower = 40;

}  // namespace

uint64_t EveryVersions(absl::Duration version_time, absl::Duration target, absl::Duration least) {
  if (version_time <= absl::ZeroDuration()) return 1;
  const auto takes = [version_time](int power) { return version_time * (uint64_t{1} << power); };
  int power = 0;
  while (power < kLargestPower && (takes(power + 1) <= target || takes(power) < least)) ++power;
  return uint64_t{1} << power;
}

void CutPlanner::Start(absl::Span<const ShardStatus> shards, uint64_t catch_up, absl::Time now) {
  started_ = now;
  moves_ = false;
  catch_up_ = catch_up;
  wanted_ = 0;
  held_.reset();
  newest_ = 0;
  SeeShards(shards);
  common_ = NewestCommonCut(shards);
  has_new_common_ = false;
  asked_ = 0;
  asked_since_common_ = 0;
  patient_from_ = now;
  if (version_time_ > absl::ZeroDuration()) Ask(now);
}

void CutPlanner::SeeShards(absl::Span<const ShardStatus> shards) {
  version_ = shards[0].version();
  cut_durations_.resize(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    version_ = std::min(version_, shards[i].version());
    newest_ = std::max(newest_, shards[i].version());
    // A server that was started again does not know.
    const absl::Duration took = FromProto(shards[i].cut_duration());
    if (took > absl::ZeroDuration()) cut_durations_[i] = took;
  }
}

bool CutPlanner::Observe(absl::Span<const ShardStatus> shards, absl::Time now) {
  const uint64_t before = version_;
  SeeShards(shards);
  MeasureVersions(before, now);
  const CutName before_common = std::exchange(common_, NewestCommonCut(shards));
  const auto rank = [](const CutName& cut) { return std::pair(cut.epoch(), cut.version()); };
  if (rank(common_) > rank(before_common)) {
    // Before it is known what a version takes, shards spend their room on whatever comes first.
    has_new_common_ = version_time_ > absl::ZeroDuration();
    asked_since_common_ = 0;
    patient_from_ = now;
  }
  return AskIfOverdue(now) || rank(common_) != rank(before_common);
}

// The first versions after a start are not measured: they waited for workers.
void CutPlanner::MeasureVersions(uint64_t before, absl::Time now) {
  if (version_ <= before) return;
  if (moves_) {
    const absl::Duration measured = (now - version_at_) / static_cast<double>(version_ - before);
    version_time_ = version_time_ == absl::ZeroDuration()
                        ? measured
                        : kNewWeight * measured + (1 - kNewWeight) * version_time_;
  }
  moves_ = true;
  version_at_ = now;
}

// What was asked for stays so until all shards have passed it, unless versions have come to take so
// long that it lies far ahead of them all.
bool CutPlanner::AskIfOverdue(absl::Time now) {
  const bool is_far = asked_ > newest_ + 1 + VersionsIn(2 * kAhead);
  if ((asked_ > version_ && !is_far) || version_time_ == absl::ZeroDuration()) return false;
  if (now - patient_from_ <= Patience(now)) return false;
  Ask(now);
  return true;
}

// A slow server may have heard of the one before too late.
void CutPlanner::Ask(absl::Time now) {
  const absl::Duration ahead =
      has_new_common_ ? kAhead : std::min(kAhead, DoubledEachTime(kFirstAhead));
  asked_ = newest_ + 1 + VersionsIn(ahead);
  ++asked_since_common_;
  patient_from_ = now;  // It has its time.
}

absl::Duration CutPlanner::Patience(absl::Time now) const {
  const absl::Duration patience = kOverdue * std::max({Target(now), Least(), version_time_});
  if (has_new_common_) return patience;
  // The first cut of a large shard takes longer than that: each time it has twice as long.
  return std::min(patience, std::max(DoubledEachTime(kFirstCutAfter), SlowestCut()));
}

absl::Duration CutPlanner::DoubledEachTime(absl::Duration first) const {
  return first * (uint64_t{1} << std::min(asked_since_common_, kLargestPower));
}

bool CutPlanner::AwaitsFirstCommon(absl::Time now) const {
  return !has_new_common_ && now - started_ < kAsksOften;
}

uint64_t CutPlanner::VersionAhead() const { return newest_ + 1 + VersionsIn(kAhead); }

uint64_t CutPlanner::VersionsIn(absl::Duration time) const {
  if (version_time_ == absl::ZeroDuration()) return 0;
  return static_cast<uint64_t>(time / version_time_);
}

absl::Duration CutPlanner::Target(absl::Time now) const {
  return std::min(period_, std::max(kFirstCutAfter, now - started_));
}

absl::Duration CutPlanner::SlowestCut() const {
  const auto slowest = std::max_element(cut_durations_.begin(), cut_durations_.end());
  return slowest == cut_durations_.end() ? absl::ZeroDuration() : *slowest;
}

absl::Duration CutPlanner::Least() const { return kCutShare * SlowestCut(); }

PlanCutsRequest CutPlanner::Plan(uint64_t generation, absl::Time now) const {
  PlanCutsRequest plan;
  plan.set_generation(generation);
  plan.set_every_versions(EveryVersions(version_time_, Target(now), Least()));
  const bool holds = held_ && held_->epoch() == common_.epoch() && held_->version() > 0 &&
                     held_->version() < common_.version();
  const CutName& common = holds ? *held_ : common_;
  if (common.version() > 0) *plan.mutable_common() = common;
  for (const uint64_t version : {asked_, catch_up_, wanted_}) {
    if (version <= version_) continue;
    if (plan.also_at() == 0 || version < plan.also_at()) plan.set_also_at(version);
  }
  return plan;
}

}  // namespace millrace::coordinator
