#include "coordinator/run/relocator.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// "ps-1, ps-2": where shards are that are to move.
std::string EvacuatedServersOf(const ShardGroup& shards, const RunnerEnvironment& environment) {
  std::set<std::string> names;
  for (const ShardPlacement& placement : shards.placements()) {
    if (environment.IsEvacuated(placement.directory_id())) names.insert(placement.server());
  }
  return absl::StrJoin(names, ", ");
}

// It may be for want of memory that a server cannot take a shard.
bool IsFull(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
}

}  // namespace

std::vector<ShardMove> PlanRebalance(const RunnerEnvironment& environment,
                                     absl::Span<const ShardPlacement> shards,
                                     const AvoidedServers& avoided) {
  return PlanMoves(
      shards,
      [&environment](const std::string& directory) { return environment.IsEvacuated(directory); },
      TargetServers(environment, avoided), /*rebalances=*/true);
}

bool Relocator::WantsToMove(const ShardGroup& shards) {
  // The record's generation is theirs by now, or a greater one.
  if (environment_.drop_strays) environment_.drop_strays(std::exchange(copies_in_vain_, {}));
  if (HaveToLeave(shards)) return true;
  if (!rebalance_is_asked_ || environment_.clock->Now() < next_) return false;
  const bool helps = !PlanRebalance(environment_, shards.placements(), avoided_).empty();
  if (!helps) rebalance_is_asked_ = false;
  return helps;
}

bool Relocator::HaveToLeave(const ShardGroup& shards) {
  const bool any = environment_.evacuated != nullptr && !environment_.evacuated->empty();
  if (!any || EvacuatedServersOf(shards, environment_).empty()) {
    job_->SetMoveTrouble("");
    return false;
  }
  if (environment_.clock->Now() < next_) return false;
  if (environment_.OpenPsServers().empty()) {
    Tell("no other ps server is there that could take them");
    return false;
  }
  return !TargetServers(environment_, avoided_).empty();
}

std::string Relocator::Begin(const ShardGroup& shards) {
  begun_ = true;
  const std::string left = EvacuatedServersOf(shards, environment_);
  return left.empty() ? "rebalancing the shards" : absl::StrCat("evacuating ", left);
}

std::vector<ShardMove> Relocator::Plan(const ShardGroup& shards) const {
  if (rebalance_is_asked_) return PlanRebalance(environment_, shards.placements(), avoided_);
  return PlanMoves(
      shards.placements(),
      [this](const std::string& directory) { return environment_.IsEvacuated(directory); },
      TargetServers(environment_, avoided_));
}

absl::StatusOr<bool> Relocator::Move(ShardGroup& shards, const ShardGroup::Statuses& statuses,
                                     uint64_t generation) {
  if (!std::exchange(begun_, false) || job_->record().has_remake()) return false;
  std::vector<ShardMove> moves;
  std::unique_ptr<ArrivingShards> arriving;  // Until the journal says that they are there.
  do {
    moves = Plan(shards);
    std::vector<std::string> directories;
    for (const ShardMove& move : moves) directories.push_back(move.to.directory_id);
    arriving = environment_.Announce(job_->id(), std::move(directories));
  } while (arriving == nullptr);  // One was evacuated meanwhile: others are chosen.
  const bool is_rebalance = EvacuatedServersOf(shards, environment_).empty();
  rebalance_is_asked_ = false;  // Once, also where it is in vain.
  if (moves.empty()) return false;
  const absl::Time begin = environment_.clock->Now();
  const auto copies = Copy(shards, statuses, moves, generation);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (!copies.ok()) {
    NoteVain(std::string(copies.status().message()), is_rebalance);
    return true;  // A copy that is still under way is refused from the next generation on.
  }
  MILLRACE_RETURN_IF_ERROR(Settle(shards, moves, generation + 1));
  const absl::Duration took = absl::Trunc(environment_.clock->Now() - begin, absl::Milliseconds(1));
  std::vector<std::string> told;
  for (const ShardMove& move : moves) {
    told.push_back(absl::StrCat("shard ", move.shard, " moved from ",
                                shards.placements()[move.shard].server(), " to ", move.to.name));
  }
  how_ = absl::StrCat(absl::StrJoin(told, ", "), " in ", absl::FormatDuration(took));
  pause_.Reset();
  return true;
}

// The copies are what the shards are; anything else is an error.
absl::StatusOr<ShardGroup::Statuses> Relocator::Copy(ShardGroup& shards,
                                                     const ShardGroup::Statuses& statuses,
                                                     absl::Span<const ShardMove> moves,
                                                     uint64_t generation) {
  // Synchronous shards that are all at one version have a cut in common once it is written. So one
  // that has moved, and has no other one, does not take the others back further than that.
  if (Replicas(job_->spec()) > 0) {
    MILLRACE_RETURN_IF_ERROR(CheckTogether(statuses));
    job_->SetStalled("all shards to write a cut, so that some can move", environment_.clock->Now());
    MILLRACE_ASSIGN_OR_RETURN(const auto flushed, shards.FlushCut(generation));
    MILLRACE_RETURN_IF_ERROR(CheckTogether(flushed));
  }
  job_->SetStalled(absl::StrCat(shards.NameOf(moves.front().shard),
                                moves.size() > 1 ? " and others" : "", " to be copied to ",
                                moves.front().to.name, moves.size() > 1 ? " and others" : ""),
                   environment_.clock->Now());
  for (const ShardMove& move : moves) {
    copies_in_vain_.push_back({job_->id(), move.shard, move.to.directory_id});
  }
  auto copies = shards.Copy(generation, moves);
  if (!copies.ok()) {
    const auto failed = std::find_if(moves.begin(), moves.end(), [&](const ShardMove& move) {
      return move.shard == shards.failed_shard();
    });
    avoided_.Avoid(failed->to.directory_id,
                   IsFull(copies.status()) ? AvoidedServers::kFull : AvoidedServers::kCopyFailed);
    return copies.status();
  }
  for (size_t i = 0; i < moves.size(); ++i) {
    if (AreOfOneState((*copies)[i], statuses[moves[i].shard])) continue;
    return absl::InternalError(absl::StrCat("what ", moves[i].to.name, " has of shard ",
                                            moves[i].shard, " is not what it is"));
  }
  return copies;
}

// From the journal's write on the shards are there, and what is left behind may go.
absl::Status Relocator::Settle(const ShardGroup& shards, absl::Span<const ShardMove> moves,
                               uint64_t generation) {
  std::vector<ShardPlacement> after = shards.placements();
  std::vector<StrayShard> left;
  for (const ShardMove& move : moves) {
    left.push_back({job_->id(), move.shard, after[move.shard].directory_id()});
    PlaceOn(move.to, after[move.shard]);
  }
  MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& changed) {
    changed.mutable_shards()->Assign(after.begin(), after.end());
    changed.set_generation(generation);
  }));
  copies_in_vain_.clear();
  if (environment_.drop_strays) environment_.drop_strays(left);
  return absl::OkStatus();
}

// The job stands still for each try, so they come more and more rarely.
void Relocator::NoteVain(const std::string& why, bool is_rebalance) {
  next_ = environment_.clock->Now() + pause_.Next();
  if (is_rebalance) {
    return job_->AppendNotice(absl::StrCat("shards stay where they are, until `millrace rebalance ",
                                           job_->id(), "` once more: ", why));
  }
  const bool is_news = Tell(why);
  LOG_IF(WARNING, !is_news) << job_->id() << ": shards stay where they are: " << OneLine(why);
}

// Returns whether it is news.
bool Relocator::Tell(const std::string& why) {
  const bool is_news = job_->SetMoveTrouble(why);
  if (is_news) {
    job_->AppendNotice(absl::StrCat("shards stay for now where they are: ", why));
  }
  return is_news;
}

}  // namespace millrace::coordinator
