// What is journaled comes first: the new placements, which shards are to be dropped where they are
// and then made, and why. A coordinator that dies anywhere after that does the same again: dropping
// a shard twice, and making one that is there with the same spec, change nothing. A shard that is
// to be made is dropped before, also where nothing should be: what a server had of it from an
// earlier life of the job is of another state, and would be taken for what was made. Only when that
// is done, and journaled under one more generation, is it made.
//
// Asynchronous shards need not be of one moment: those that are lost are made again, with the
// applied set that the checkpoint has of them, and the steps that they lack are run again. The
// shards of a synchronous job go on together, so that all are made again.
#include "coordinator/run/remaker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/shards/remake_plan.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {
namespace {

using ::google::protobuf::util::MessageDifferencer;

// Files are not looked for more often than this.
constexpr absl::Duration kLookForFilesAgain = absl::Seconds(10);
// Calls that fail as long after one another as this are not failures in a row: we stood still, or a
// server has read for long between them.
constexpr absl::Duration kNotInARow = absl::Seconds(30);

// Why shards are made again, with one more cause, and how.
Remake WithCause(Remake remake, const std::string& cause, const std::string& how) {
  if (!absl::StrContains(remake.cause(), cause)) {
    remake.set_cause(remake.cause().empty() ? cause : absl::StrCat(remake.cause(), ", ", cause));
  }
  remake.set_how(how);
  return remake;
}

}  // namespace

void Remaker::Begin() {
  missing_since_.clear();
  damaged_.clear();
  told_.clear();
  avoided_.Clear();
  hopeless_since_.reset();
  look_again_ = absl::InfinitePast();
  waits_for_files_ = false;
  why_not_.clear();
}

bool Remaker::IsHopeless() const {
  return hopeless_since_ &&
         environment_.clock->Now() - *hopeless_since_ >= environment_.member_timeout;
}

absl::StatusOr<bool> Remaker::ReplaceMissing(ShardGroup& shards) {
  unserved_.reset();  // One that comes back has its own time to open its shards.
  stuck_.reset();
  const absl::Time now = environment_.clock->Now();
  const std::map<std::string, absl::Time> before = std::exchange(missing_since_, {});
  const std::vector<ShardPlacement>& placements = shards.placements();
  Losses losses{std::vector<bool>(placements.size()), std::vector<bool>(placements.size()), ""};
  std::set<std::string> causes;
  for (uint32_t shard = 0; shard < placements.size(); ++shard) {
    if (shards.IsLocated(shard)) continue;
    losses.moves[shard] = true;
    const std::string& directory = placements[shard].directory_id();
    const auto known = before.find(directory);
    const absl::Time since = known == before.end() ? now : known->second;
    missing_since_[directory] = since;
    const bool overdue = now - since >= environment_.restore_grace;
    if (!overdue && !shards.only_directories_are_lost()) continue;
    losses.lost[shard] = true;
    causes.insert(
        shards.HasLostDirectory(shard)
            ? absl::StrCat("the data directory of ", placements[shard].server(), " is gone")
            : absl::StrCat(placements[shard].server(), " is gone for longer than ",
                           absl::FormatDuration(environment_.restore_grace)));
  }
  if (causes.empty() || now < look_again_) return false;
  losses.cause = absl::StrJoin(causes, ", ");
  if (TargetServers(environment_, avoided_).empty()) avoided_.ClearHanging();
  return MakeAgain(shards, std::move(losses));
}

// A server whose disk is full, say, still tells of its shards.
bool Remaker::IsUnserved(ShardGroup& shards, const absl::Status& status) {
  const uint32_t failed = shards.failed_shard();
  if (!absl::IsUnavailable(status) || !absl::IsUnavailable(shards.Look(failed))) {
    unserved_.reset();
    return false;
  }
  return IsOverdue(shards, unserved_);
}

bool Remaker::IsStuck(const ShardGroup& shards, const absl::Status& status) {
  if (absl::IsUnavailable(status)) return IsOverdue(shards, stuck_);
  stuck_.reset();
  return false;
}

bool Remaker::IsOverdue(const ShardGroup& shards, absl::optional<Trouble>& trouble) const {
  const absl::Time now = environment_.clock->Now();
  const std::string& directory = shards.placements()[shards.failed_shard()].directory_id();
  if (!trouble || trouble->directory_id != directory || now - trouble->last > kNotInARow) {
    trouble = Trouble{directory, /*since=*/now};
  }
  trouble->last = now;
  return now - trouble->since >= environment_.restore_grace;
}

absl::StatusOr<bool> Remaker::ReplaceFailed(ShardGroup& shards, const absl::Status& status) {
  const uint32_t failed = shards.failed_shard();
  const ShardPlacement& placement = shards.placements()[failed];
  const size_t count = shards.placements().size();
  Losses losses{std::vector<bool>(count), std::vector<bool>(count), ""};
  losses.lost[failed] = true;
  const bool is_full = absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
  if (absl::IsUnavailable(status)) return ReplaceUnserved(shards, std::move(losses));
  if (!IsToBeMade(placement)) return ReplaceMade(shards, std::move(losses), status);
  losses.cause = job_->record().remake().cause();
  const bool hangs = absl::IsDeadlineExceeded(status);
  if (is_full || hangs) {
    avoided_.Avoid(placement.directory_id(),
                   is_full ? AvoidedServers::kFull : AvoidedServers::kHangs);
    if (TargetServers(environment_, avoided_).empty()) {
      return hangs ? WaitForHanging(status) : false;
    }
    losses.moves[failed] = true;
    return MakeAgain(shards, std::move(losses));
  }
  if (absl::IsAlreadyExists(status)) return DropAgain(shards);
  if (environment_.clock->Now() < look_again_) return false;
  const ShardRestore from = placement.restore();
  MILLRACE_ASSIGN_OR_RETURN(const bool replaced,
                            absl::IsDataLoss(status)
                                ? ReplaceDamaged(shards, std::move(losses), from, status)
                                : ReplaceGone(shards, std::move(losses), from));
  if (replaced || waits_for_files_) {
    hopeless_since_.reset();
  } else {
    NoteHopeless(absl::StrCat(
        shards.NameOf(failed),
        " cannot be made again: ", why_not_.empty() ? std::string(status.message()) : why_not_,
        "; looks for a checkpoint every ", absl::FormatDuration(kLookForFilesAgain)));
  }
  return replaced;
}

// What else is there is not served either, and could not be dropped.
absl::StatusOr<bool> Remaker::ReplaceUnserved(ShardGroup& shards, Losses losses) {
  const absl::Time now = environment_.clock->Now();
  const uint32_t failed = shards.failed_shard();
  const std::string& directory = shards.placements()[failed].directory_id();
  if (now < look_again_) return false;
  avoided_.Avoid(directory, AvoidedServers::kHangs);
  MILLRACE_ASSIGN_OR_RETURN(const bool has_others,
                            AvoidSilentServers(environment_, job_->id(), inbox_, &avoided_));
  if (!has_others) {
    avoided_.ClearHanging();
    avoided_.Avoid(directory, AvoidedServers::kHangs);
    MILLRACE_RETURN_IF_ERROR(
        AvoidSilentServers(environment_, job_->id(), inbox_, &avoided_).status());
  }
  // To ask servers that hang took its time, in which the trouble went on.
  for (absl::optional<Trouble>* const trouble : {&unserved_, &stuck_}) {
    if (trouble->has_value()) (*trouble)->last = environment_.clock->Now();
  }
  for (uint32_t shard = 0; shard < losses.lost.size(); ++shard) {
    if (shards.placements()[shard].directory_id() != directory) continue;
    losses.lost[shard] = losses.moves[shard] = true;
  }
  losses.cause = absl::StrCat(shards.NameOf(failed), " is not served for longer than ",
                              absl::FormatDuration(environment_.restore_grace));
  return MakeAgain(shards, std::move(losses));
}

// It was made, and cannot be had.
absl::StatusOr<bool> Remaker::ReplaceMade(ShardGroup& shards, Losses losses,
                                          const absl::Status& status) {
  const uint32_t failed = shards.failed_shard();
  const std::string name = shards.NameOf(failed);
  const bool is_damaged = absl::IsDataLoss(status);
  if (!is_damaged && (environment_.clock->Now() < look_again_ || !absl::IsNotFound(status))) {
    return false;
  }
  losses.cause = absl::StrCat(name, is_damaged ? " is damaged" : " is not there any more");
  return MakeAgain(shards, std::move(losses));
}

void Remaker::NoteLost(const ShardGroup& shards, const absl::Status& status) {
  if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return;
  if (waits_for_files_) {
    hopeless_since_.reset();
  } else {
    NoteHopeless(absl::StrCat(shards.NameOf(shards.failed_shard()),
                              absl::IsDataLoss(status) ? " is damaged" : " is not there any more",
                              ", and cannot be made again: ", why_not_));
  }
}

// There is no other server: it is asked again, unless its disk alone hangs.
absl::StatusOr<bool> Remaker::WaitForHanging(const absl::Status& status) {
  const auto found = FindUsable();
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (waits_for_files_) {
    hopeless_since_.reset();
  } else {
    NoteHopeless(absl::StrCat(std::string(status.message()),
                              "; no other ps server could make it, and it is asked once more"));
  }
  return false;
}

void Remaker::NoteHopeless(const std::string& what) {
  if (hopeless_since_) return;
  hopeless_since_ = environment_.clock->Now();
  job_->AppendNotice(absl::StrCat(what, ", and fails after ",
                                  absl::FormatDuration(environment_.member_timeout),
                                  " (--member_timeout of the coordinator)"));
}

// A shard that is to be made cannot be: its checkpoint is damaged, or was removed while it was
// read; or the shard is there, and damaged itself.
absl::StatusOr<bool> Remaker::ReplaceDamaged(ShardGroup& shards, Losses losses,
                                             const ShardRestore& bad, const absl::Status& damage) {
  const absl::Status there = shards.Look(shards.failed_shard());
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (absl::IsDataLoss(there)) return DropAgain(shards);
  MILLRACE_ASSIGN_OR_RETURN(const bool is_removed, IsRemoved(bad));
  if (is_removed) return ReplaceGone(shards, std::move(losses), bad);
  if (damaged_[bad.directory()].insert(bad.checkpoint()).second) {
    job_->AppendNotice(absl::StrCat("checkpoint ", NameOf(bad),
                                    " cannot be used: ", std::string(damage.message())));
  }
  return MakeAgain(shards, std::move(losses));
}

// What the server has of a shard that is to be made is not what is to be made.
absl::StatusOr<bool> Remaker::DropAgain(ShardGroup& shards) {
  std::vector<ShardPlacement> after = shards.placements();
  after[shards.failed_shard()].set_making(ShardPlacement::TO_BE_DROPPED);
  MILLRACE_RETURN_IF_ERROR(reporter_->Journal(
      [&](JobRecord& record) { record.mutable_shards()->Assign(after.begin(), after.end()); }));
  return true;
}

// A server does not find its checkpoint. Somebody may have removed it; or the server does not see
// the directory, and then no other one helps.
absl::StatusOr<bool> Remaker::ReplaceGone(ShardGroup& shards, Losses losses,
                                          const ShardRestore& gone) {
  look_again_ = environment_.clock->Now() + kLookForFilesAgain;
  const auto found = FindUsable();
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  why_not_ = std::string(found.status().message());
  if (!found.ok() || MessageDifferencer::Equals(*found->checkpoint, gone)) return false;
  return MakeAgain(shards, std::move(losses));
}

absl::StatusOr<bool> Remaker::ReplaceByFurther(ShardGroup& shards, uint64_t steps,
                                               const std::string& cause) {
  // Checkpoints are written of cuts. So there is nothing to look for, unless cuts are gone.
  if (steps > 0 && job_->record().checkpoint().step() <= steps) return false;
  const auto found = FindUsable();
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  why_not_ = waits_for_files_ ? std::string(found.status().message()) : "";
  if (!found.ok() || found->step <= steps) return false;
  // Those that were to be made of it are there by now. What they have is not what was made, or they
  // would go on together: a server's disk may be an older copy. PlaceAgain has them dropped first
  // only where they are not still to be made of it.
  shards.MarkMade();
  const size_t count = shards.placements().size();
  return MakeOf(*found, shards,
                Losses{std::vector<bool>(count, true), std::vector<bool>(count), cause});
}

absl::StatusOr<bool> Remaker::MakeAgain(ShardGroup& shards, Losses losses) {
  const auto found = FindUsable();
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (!found.ok()) return CannotMake(losses, std::string(found.status().message()));
  return MakeOf(*found, shards, std::move(losses));
}

bool Remaker::CannotMake(const Losses& losses, const std::string& why_not) {
  why_not_ = why_not;
  look_again_ = environment_.clock->Now() + kLookForFilesAgain;
  LOG(WARNING) << job_->id() << ": " << losses.cause << ", and cannot be made again: " << why_not_;
  return false;
}

// Where it chooses a server that is evacuated meanwhile, it chooses again.
absl::StatusOr<bool> Remaker::MakeOf(const FoundCheckpoint& found, ShardGroup& shards,
                                     Losses losses) {
  const std::vector<TargetServer> servers = TargetServers(environment_, avoided_);
  const bool moves =
      std::find(losses.moves.begin(), losses.moves.end(), true) != losses.moves.end();
  if (moves && servers.empty()) {
    return CannotMake(losses, "no ps server is there that could take its shards");
  }
  if (Replicas(job_->spec()) > 0) losses.lost.assign(losses.lost.size(), true);
  const JobRecord before = job_->record();
  const ShardRestore& from = *found.checkpoint;
  const std::vector<ShardPlacement> after =
      PlaceAgain(shards.placements(), losses.lost, losses.moves, from, servers);
  std::vector<std::string> taken_by;
  for (size_t i = 0; i < after.size(); ++i) {
    if (losses.moves[i]) taken_by.push_back(after[i].directory_id());
  }
  const auto arriving = environment_.Announce(job_->id(), std::move(taken_by));
  if (arriving == nullptr) return MakeOf(found, shards, std::move(losses));
  const Remake remake =
      WithCause(before.remake(), losses.cause,
                absl::StrCat(DescribeRemade(after), " from checkpoint ",
                             CheckpointFolder(from.checkpoint()), " at step ", found.step));
  const std::set<uint64_t> damaged = DamagedBeside(found);
  MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& record) {
    record.mutable_shards()->Assign(after.begin(), after.end());
    *record.mutable_remake() = remake;
    record.mutable_damaged_checkpoints()->Assign(damaged.begin(), damaged.end());
  }));
  for (const auto& [number, damage] : found.damaged) {
    if (!told_.insert(damage).second) continue;
    job_->AppendNotice(absl::StrCat("a checkpoint cannot be used: ", damage));
  }
  job_->AppendNotice(
      absl::StrCat(remake.cause(), ": makes ", remake.how(), " (", NameOf(from), ")"));
  DropStrays(before, after);
  return true;
}

// The job's own furthest one; or else the one that it was restored from. NOT_FOUND: there is none.
absl::StatusOr<FoundCheckpoint> Remaker::FindUsable() {
  const JobRecord record = job_->record();
  const std::string& directory = job_->spec().checkpoints().directory();
  absl::StatusOr<FoundCheckpoint> found = FoundCheckpoint();
  found->why_none = "the job has no checkpoints (checkpoints.directory)";
  if (!directory.empty()) {
    found = environment_.file_caller->Call<FoundCheckpoint>(
        directory,
        [directory, id = job_->id(), files = environment_.file_system,
         written = record.checkpoint().number(),
         but = DamagedIn(directory)] { return FindCheckpoint(files, directory, id, written, but); },
        [this] { return !inbox_->interrupt().ok(); });
  }
  waits_for_files_ = absl::IsUnavailable(found.status());
  if (!found.ok() || found->checkpoint) return found;
  const ShardRestore& begun = record.restored_from().checkpoint();
  if (!record.has_restored_from() || DamagedIn(begun.directory()).contains(begun.checkpoint())) {
    return absl::NotFoundError(found->why_none);
  }
  found->checkpoint = begun;
  found->step = record.restored_from().step();
  return found;
}

std::set<uint64_t> Remaker::DamagedIn(const std::string& directory) const {
  const auto damaged = damaged_.find(directory);
  return damaged == damaged_.end() ? std::set<uint64_t>() : damaged->second;
}

// Of the job's own checkpoints, where shards are made of `found`. What was journaled before stays:
// until the next one is written they are there, and no state of the job.
std::set<uint64_t> Remaker::DamagedBeside(const FoundCheckpoint& found) const {
  const std::string& directory = job_->spec().checkpoints().directory();
  std::set<uint64_t> damaged = DamagedIn(directory);
  for (const auto& [number, why] : found.damaged) damaged.insert(number);
  const JobRecord record = job_->record();
  damaged.insert(record.damaged_checkpoints().begin(), record.damaged_checkpoints().end());
  if (found.checkpoint->directory() == directory) damaged.erase(found.checkpoint->checkpoint());
  return damaged;
}

absl::StatusOr<bool> Remaker::IsRemoved(const ShardRestore& checkpoint) const {
  const auto removed = environment_.file_caller->Call<bool>(
      checkpoint.directory(),
      [checkpoint, files = environment_.file_system]() -> absl::StatusOr<bool> {
        return coordinator::IsRemoved(files, checkpoint);
      },
      [this] { return !inbox_->interrupt().ok(); });
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  return removed.value_or(false);
}

// A server that came back between looking and journaling said what it has before that was stray.
void Remaker::DropStrays(const JobRecord& before, absl::Span<const ShardPlacement> after) const {
  if (!environment_.drop_strays) return;
  std::vector<StrayShard> strays;
  for (uint32_t shard = 0; shard < after.size(); ++shard) {
    const std::string& directory = before.shards(static_cast<int>(shard)).directory_id();
    if (directory != after[shard].directory_id()) strays.push_back({job_->id(), shard, directory});
  }
  environment_.drop_strays(strays);
}

std::map<std::string, std::string> Remaker::Explain(
    std::map<std::string, std::string> missing) const {
  if (why_not_.empty()) return missing;
  for (auto& [name, whom] : missing) {
    absl::StrAppend(&whom, " (its shards cannot be made again: ", why_not_, ")");
  }
  return missing;
}

absl::Status Remaker::Explain(const absl::Status& status) const {
  const JobRecord record = job_->record();
  if (absl::IsDataLoss(status) && job_->state() == PENDING && record.has_restored_from()) {
    const ShardRestore& damaged = record.restored_from().checkpoint();
    const auto offer = environment_.file_caller->Call<std::string>(
        damaged.directory(),
        [damaged, damage = std::string(status.message()), files = environment_.file_system] {
          return OfferOneBefore(files, damaged.directory(), damaged.checkpoint(), damage);
        },
        [this] { return !inbox_->interrupt().ok(); });
    return absl::DataLossError(absl::StrCat(std::string(status.message()), offer.value_or("")));
  }
  if (why_not_.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(std::string(status.message()),
                                                  " (it cannot be made again: ", why_not_, ")"));
}

}  // namespace millrace::coordinator
