#include "coordinator/run/unmaker.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "coordinator/run/job_beginning.h"
#include "coordinator/shards/can_be_called.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// A new job that waits for a server keeps what it has made elsewhere for this long: a server that
// is started again is back by then.
constexpr absl::Duration kKeptMade = absl::Seconds(10);
// Others are not looked for more often than this.
constexpr absl::Duration kLookAgain = absl::Seconds(10);

}  // namespace

absl::StatusOr<bool> Unmaker::MakeWay(ShardGroup& shards, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return MakeWayInTime(shards);
  stuck_since_.reset();
  if (environment_.memory_turn->Take(job_->id())) return false;
  MILLRACE_RETURN_IF_ERROR(Unmake(shards));
  return true;
}

absl::StatusOr<bool> Unmaker::MakeWayInTime(ShardGroup& shards) {
  environment_.memory_turn->GiveBack(job_->id());
  const absl::Time now = environment_.clock->Now();
  if (!stuck_since_) stuck_since_ = now;
  if (now - *stuck_since_ < kKeptMade || unmade_without_ == shards.missing()) return false;
  MILLRACE_RETURN_IF_ERROR(Unmake(shards));
  return true;
}

absl::Status Unmaker::Unmake(ShardGroup& shards) {
  const absl::Status unmade = shards.Unmake(tries_.generation(), /*all=*/job_->state() == PENDING);
  LOG_IF(WARNING, !unmade.ok()) << job_->id() << ": " << unmade;
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (unmade.ok()) {
    unmade_without_ = shards.missing();
  } else if (stuck_since_) {
    stuck_since_ = environment_.clock->Now();  // It is tried again, later.
  }
  // A call that was given up may arrive yet, and must not drop what is made next.
  return tries_.BeginGeneration(tries_.generation() + 1);
}

absl::StatusOr<bool> Unmaker::LeaveMissing(ShardGroup& shards) {
  std::map<std::string, std::string> blamed;
  const auto& placements = shards.placements();
  for (uint32_t shard = 0; shard < placements.size(); ++shard) {
    if (shards.IsLocated(shard)) continue;
    blamed[placements[shard].directory_id()] = absl::StrCat(placements[shard].server(), " is gone");
  }
  return Leave(shards, blamed, /*at_once=*/false);
}

absl::StatusOr<bool> Unmaker::LeaveFailed(ShardGroup& shards, const absl::Status& status) {
  if (absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status)) {
    return TakeMoreServers(shards);
  }
  const uint32_t failed = shards.failed_shard();
  return Leave(shards,
               {{shards.placements()[failed].directory_id(),
                 absl::StrCat(shards.NameOf(failed), " is not served")}},
               /*at_once=*/absl::IsDeadlineExceeded(status));
}

absl::StatusOr<bool> Unmaker::Leave(ShardGroup& shards,
                                    const std::map<std::string, std::string>& blamed,
                                    bool at_once) {
  std::vector<std::string> directories;
  for (const auto& [directory, what] : blamed) directories.push_back(directory);
  troubles_.Note(directories);
  const absl::Duration grace = environment_.restore_grace;
  const absl::Time now = environment_.clock->Now();
  if (now < look_again_) return false;
  std::vector<std::string> causes;
  for (const auto& [directory, what] : blamed) {
    if (!at_once && troubles_.Of(directory) < grace) continue;
    avoided_.Avoid(directory, AvoidedServers::kHangs);
    causes.push_back(what);
  }
  if (causes.empty()) return false;
  look_again_ = now + kLookAgain;
  MILLRACE_ASSIGN_OR_RETURN(const bool has_others, HasOthers());
  if (!has_others) {  // Those that were avoided before may be well by now.
    avoided_.Clear();
    return false;
  }
  MILLRACE_RETURN_IF_ERROR(Leave(
      shards, absl::StrCat(absl::StrJoin(causes, ", "), " for longer than ",
                           absl::FormatDuration(grace), "; the job begins on other servers")));
  return true;
}

// It may be we who cannot call anybody.
absl::StatusOr<bool> Unmaker::HasOthers() {
  const std::vector<PsMember> members = environment_.registry->PsServers();
  if (members.size() < static_cast<size_t>(std::max(environment_.min_ps, 1))) return false;
  bool has_others = false;
  for (const PsMember& member : members) {
    const RegisterPs& ps = member.registration;
    if (avoided_.Contains(ps.directory_id())) continue;
    const bool can_be_called = CanBeCalled(ps.address(), ps.directory_id(), job_->id());
    MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
    if (!can_be_called) avoided_.Avoid(ps.directory_id(), AvoidedServers::kFull);
    has_others |= can_be_called;
  }
  return has_others;
}

// The servers that were left may be back, and others may have come.
absl::StatusOr<bool> Unmaker::TakeMoreServers(ShardGroup& shards) {
  const absl::Time now = environment_.clock->Now();
  if (!job_->record().was_placed_elsewhere() || now < look_again_) return false;
  look_again_ = now + kLookAgain;
  std::set<std::string> taken;
  for (const ShardPlacement& placement : shards.placements()) {
    taken.insert(placement.directory_id());
  }
  for (const PsMember& member : environment_.registry->PsServers()) {
    const RegisterPs& ps = member.registration;
    if (taken.contains(ps.directory_id())) continue;
    const bool can_be_called = CanBeCalled(ps.address(), ps.directory_id(), job_->id());
    MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
    if (!can_be_called) continue;
    avoided_.Clear();
    MILLRACE_RETURN_IF_ERROR(Leave(
        shards, absl::StrCat("there is no room for the job on the servers that are left, and ",
                             ps.name(), " is there; the job begins on all of them")));
    return true;
  }
  return false;
}

// What cannot be dropped now is dropped before anything is made in its place, and otherwise later.
absl::Status Unmaker::Leave(ShardGroup& shards, const std::string& notice) {
  environment_.memory_turn->GiveBack(job_->id());
  const absl::Status dropped = shards.Unmake(tries_.generation(), /*all=*/true);
  LOG_IF(WARNING, !dropped.ok()) << job_->id() << ": " << dropped;
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  std::vector<StrayShard> strays;
  for (uint32_t shard = 0; shard < shards.placements().size(); ++shard) {
    strays.push_back({job_->id(), shard, shards.placements()[shard].directory_id()});
  }
  MILLRACE_RETURN_IF_ERROR(reporter_->Journal([](JobRecord& record) {
    record.clear_shards();
    record.set_was_placed_elsewhere(true);
  }));
  if (environment_.drop_strays) environment_.drop_strays(strays);
  job_->AppendNotice(notice);
  return absl::OkStatus();
}

absl::StatusOr<bool> Unmaker::Displace(ShardGroup& shards, const RestoredFrom& from) {
  environment_.memory_turn->GiveBack(job_->id());
  const absl::Status dropped = shards.Unmake(tries_.generation(), /*all=*/true);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  switch (tries_.Decide(dropped)) {
    case ReachAction::kReached:
      MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& record) {
        record.clear_shards();
        if (record.has_restored_from()) SetRestoredFrom(from, record);
      }));
      return true;
    case ReachAction::kAskWhoIsNew:
      MILLRACE_RETURN_IF_ERROR(tries_.AdoptGeneration(shards, dropped));
      break;
    case ReachAction::kRetry:
      MILLRACE_RETURN_IF_ERROR(tries_.Pause(shards, dropped));
      break;
    case ReachAction::kGiveUp:
      return dropped;
  }
  // A call that was given up may arrive yet, and must not drop what is made next.
  MILLRACE_RETURN_IF_ERROR(tries_.BeginGeneration(tries_.generation() + 1));
  return false;
}

}  // namespace millrace::coordinator
