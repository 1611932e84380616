#include "coordinator/run/mover.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "coordinator/shards/can_be_called.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// Others are not looked for more often than this.
constexpr absl::Duration kLookAgain = absl::Seconds(10);

}  // namespace

void Mover::NoteMissing(const ShardGroup& shards, absl::Time began) {
  std::map<std::string, std::string> blamed;
  const auto& placements = shards.placements();
  for (uint32_t shard = 0; shard < placements.size(); ++shard) {
    if (shards.IsLocated(shard)) continue;
    blamed[placements[shard].directory_id()] = absl::StrCat(placements[shard].server(), " is gone");
  }
  Note(std::move(blamed), began);
}

void Mover::NoteUnserved(const ShardGroup& shards, absl::Time began) {
  std::map<std::string, std::string> blamed;
  for (const uint32_t shard : shards.unserved()) {
    blamed.emplace(shards.placements()[shard].directory_id(),
                   absl::StrCat(shards.NameOf(shard), " is not served"));
  }
  Note(std::move(blamed), began);
}

void Mover::Note(std::map<std::string, std::string> blamed, absl::Time began) {
  blamed_ = std::move(blamed);
  std::vector<std::string> directories;
  for (const auto& [directory, what] : blamed_) directories.push_back(directory);
  troubles_.Note(directories, began);
}

absl::StatusOr<bool> Mover::Leave(ShardGroup& shards) {
  const absl::Time now = environment_.clock->Now();
  if (now < next_) return false;
  std::vector<std::string> causes;
  for (const auto& [directory, what] : blamed_) {
    const absl::Duration time = troubles_.Of(directory);
    if (time < environment_.restore_grace) continue;
    avoided_.Avoid(directory, AvoidedServers::kHangs);
    causes.push_back(
        absl::StrCat(what, " for ", absl::FormatDuration(absl::Trunc(time, absl::Seconds(1)))));
  }
  if (causes.empty()) return false;
  next_ = now + kLookAgain;
  MILLRACE_ASSIGN_OR_RETURN(const bool has_others, HasOthers());
  if (!has_others) {  // Those that were avoided before may be well by now.
    avoided_.Clear();
    return false;
  }
  MILLRACE_RETURN_IF_ERROR(
      Move(shards, absl::StrCat(absl::StrJoin(causes, ", "), "; the job begins on other servers")));
  return true;
}

absl::StatusOr<bool> Mover::HasOthers() {
  const size_t wanted = std::max(environment_.min_ps, 1);
  if (environment_.OpenPsServers().size() < wanted) return false;
  return AvoidSilentServers(environment_, job_->id(), inbox_, &avoided_);
}

absl::StatusOr<bool> Mover::TakeMoreServers(ShardGroup& shards) {
  const absl::Time now = environment_.clock->Now();
  if (!job_->record().was_placed_elsewhere() || now < next_) return false;
  next_ = now + kLookAgain;
  for (const ShardPlacement& placement : shards.placements()) {
    considered_.insert(placement.directory_id());  // Of a move in another life of ours.
  }
  for (const PsMember& member : environment_.OpenPsServers()) {
    const RegisterPs& ps = member.registration;
    if (considered_.contains(ps.directory_id())) continue;
    const bool answers = CanBeCalled(ps.address(), ps.directory_id(), job_->id());
    MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
    if (!answers) continue;
    avoided_.Clear();
    MILLRACE_RETURN_IF_ERROR(
        Move(shards, absl::StrCat("there is no room for the job where it was placed, and ",
                                  ps.name(), " is there; it is placed again")));
    return true;
  }
  return false;
}

bool Mover::MayFindRoom(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) || !job_->record().was_placed_elsewhere()) return false;
  const absl::Time now = environment_.clock->Now();
  if (!no_room_since_) no_room_since_ = now;
  return now - *no_room_since_ < environment_.member_timeout;
}

absl::Status Mover::Move(ShardGroup& shards, const std::string& notice) {
  const absl::Time now = environment_.clock->Now();
  next_ = now + pause_.Next();
  troubles_.Note({}, now);
  no_room_since_.reset();
  considered_.clear();
  for (const PsMember& member : environment_.OpenPsServers()) {
    const std::string& directory = member.registration.directory_id();
    if (!avoided_.Contains(directory)) considered_.insert(directory);
  }
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

}  // namespace millrace::coordinator
