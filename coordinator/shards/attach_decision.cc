// Why going on is right, in synchronous mode. Steps are handed out from the intersection of what
// the shards have (applied or held), and a worker pulls one version from all of them. A shard that
// is one version ahead serves the version before as well, if it still has it, and takes a step that
// it has applied for granted. So shards may go on as they are when they are of one epoch, at most
// one version apart, and those that are ahead have the version before. Otherwise some pull would
// wait for ever: then all shards step back to the newest cut that each of them has.
//
// Version numbers repeat after that, so stepping back begins an epoch, above those of all shards.
// Where some shards have stepped back and one was lost before it could, their epochs differ, and
// the next attempt steps all of them back again.
#include "coordinator/shards/attach_decision.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/retry.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {
namespace {

// With the pauses between calls, some 3 s: a call that was given up may have been overtaken by the
// next one. A server without memory is not counted: it has some when other jobs have ended, and
// have been written.
constexpr int kRefusals = 7;

using Name = std::pair<uint64_t, uint64_t>;  // Epoch and version.

std::set<Name> CutsOf(const ShardStatus& shard) {
  std::set<Name> cuts;
  for (const CutName& cut : shard.cuts()) {
    if (cut.version() > 0) cuts.emplace(cut.epoch(), cut.version());
  }
  return cuts;
}

// Why shards cannot go on as they are, or "".
std::string WhyApart(absl::Span<const ShardStatus> shards) {
  const auto by_version = [](const auto& a, const auto& b) { return a.version() < b.version(); };
  const auto [oldest, newest] = std::minmax_element(shards.begin(), shards.end(), by_version);
  for (const ShardStatus& shard : shards) {
    if (shard.epoch() != shards[0].epoch()) {
      return absl::StrCat("shard ", shard.shard(), " is in epoch ", shard.epoch(), ", shard ",
                          shards[0].shard(), " in epoch ", shards[0].epoch());
    }
  }
  if (newest->version() - oldest->version() > 1) {
    return absl::StrCat("shard ", oldest->shard(), " is at version ", oldest->version(), ", shard ",
                        newest->shard(), " at version ", newest->version());
  }
  if (newest->version() == oldest->version()) return "";
  for (const ShardStatus& shard : shards) {
    if (shard.version() == oldest->version() || shard.has_previous()) continue;
    return absl::StrCat("shard ", shard.shard(), " came back without version ", oldest->version(),
                        ", at which shard ", oldest->shard(), " is");
  }
  return "";
}

// Each version after the cut has been made of `replicas` steps. Those before need not: an earlier
// job, that this one was restored from, may have had other replicas.
uint64_t StepsOf(const CutName& cut, const ShardStatus& shard, uint32_t replicas) {
  const auto applied = AppliedSet::FromProto(shard.applied());
  if (cut.version() == 0 || cut.version() > shard.version() || !applied.ok()) return 0;
  const uint64_t since = (shard.version() - cut.version()) * replicas;
  return applied->size() > since ? applied->size() - since : 0;
}

}  // namespace

CutName NewestCommonCut(absl::Span<const ShardStatus> shards) {
  std::set<Name> common = CutsOf(shards[0]);
  for (const ShardStatus& shard : shards.subspan(1)) {
    const std::set<Name> cuts = CutsOf(shard);
    for (auto cut = common.begin(); cut != common.end();) {
      cut = cuts.contains(*cut) ? std::next(cut) : common.erase(cut);
    }
  }
  CutName newest;
  if (common.empty()) return newest;
  newest.set_epoch(common.rbegin()->first);
  newest.set_version(common.rbegin()->second);
  return newest;
}

AttachDecision DecideAttach(absl::Span<const ShardStatus> shards, uint32_t replicas) {
  CHECK(!shards.empty());
  AttachDecision decision;
  if (replicas == 0) return decision;
  decision.why = WhyApart(shards);
  if (decision.why.empty()) return decision;
  decision.step_back = true;
  decision.cut = NewestCommonCut(shards);
  decision.steps = StepsOf(decision.cut, shards[0], replicas);
  for (const ShardStatus& shard : shards) {
    decision.epoch = std::max(decision.epoch, shard.epoch() + 1);
  }
  return decision;
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

ReachAction DecideReach(const absl::Status& status, int refused_before) {
  if (status.ok()) return ReachAction::kReached;
  if (IsRefusal(status) && refused_before + 1 >= kRefusals) return ReachAction::kGiveUp;
  if (absl::IsFailedPrecondition(status)) return ReachAction::kAskWhoIsNew;
  if (IsTransient(status.code()) || absl::IsResourceExhausted(status)) return ReachAction::kRetry;
  return ReachAction::kGiveUp;
}

absl::Status AsStepBackRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::FailedPreconditionError(status.message()) : status;
}

absl::StatusOr<uint64_t> NextGeneration(absl::Span<const ShardStatus> shards, uint64_t ours) {
  uint64_t next = ours + 1;
  for (const ShardStatus& shard : shards) {
    if (shard.generation() >= kGenerationLimit - 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shard ", shard.shard(), " is at generation ", shard.generation(),
          ", which somebody else has set; there is none above it, so that the job cannot go on"));
    }
    next = std::max(next, shard.generation() + 1);
  }
  return next;
}

BarrierState StateAtBarrier(const ShardStatus& shard, uint64_t barrier) {
  const auto applied = AppliedSet::FromProto(shard.applied());
  const auto held = AppliedSet::FromProto(shard.held());
  if (!applied.ok()) return BarrierState::kMissing;
  if (applied->watermark() > barrier || !applied->above().empty()) {
    const bool beyond = applied->watermark() >= barrier || *applied->above().rbegin() >= barrier;
    return beyond ? BarrierState::kBeyond : BarrierState::kMissing;
  }
  if (applied->watermark() == barrier) return BarrierState::kReached;
  if (!held.ok()) return BarrierState::kMissing;
  return AppliedSet::Union(*applied, *held).watermark() >= barrier ? BarrierState::kBeingApplied
                                                                   : BarrierState::kMissing;
}

BarrierCheck CheckBarrier(absl::Span<const ShardStatus> shards, uint64_t barrier) {
  BarrierCheck worst;
  for (const ShardStatus& shard : shards) {
    const BarrierState state = StateAtBarrier(shard, barrier);
    if (state > worst.state) worst = {state, shard.shard()};
  }
  return worst;
}

bool AreOfOneState(const ShardStatus& a, const ShardStatus& b) {
  return a.epoch() == b.epoch() && a.version() == b.version() &&
         google::protobuf::util::MessageDifferencer::Equals(a.applied(), b.applied());
}

absl::Status CheckTogether(absl::Span<const ShardStatus> shards) {
  for (const ShardStatus& shard : shards) {
    const bool holds = shard.held().watermark() > 0 || shard.held().above_size() > 0;
    if (AreOfOneState(shard, shards.front()) && !holds) continue;
    return absl::AbortedError("its shards are not at one version");
  }
  return absl::OkStatus();
}

uint64_t CountLost(const AppliedSet& before, const AppliedSet& after) {
  return before.size() - AppliedSet::Intersection(before, after).size();
}

std::string DescribeOrigin(const ShardStatus& shard) {
  switch (shard.origin()) {
    case ShardStatus::ARENA:
      return "from memory that outlived its process";
    case ShardStatus::CUT:
      return absl::StrCat("from its cut of version ", shard.version());
    case ShardStatus::INITIAL_VALUES:
      return "from its initial values";
    case ShardStatus::CHECKPOINT:
      return "from its checkpoint";
    default:
      return "as it was";
  }
}

}  // namespace millrace::coordinator
