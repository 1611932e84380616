// A generation is in the journal before anybody hears of it. From SetGeneration on a shard takes no
// push of an older generation, so what it answers stays true until workers get the new one; and a
// shard that loses steps afterwards belongs to a server that has joined again, or refuses the
// generation because it is closed: either ends training, and brings the job back here.
#include "coordinator/run/attacher.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_finder.h"
#include "coordinator/checkpoint/restore_check.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/run/job_beginning.h"
#include "coordinator/shards/attach_decision.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kMissingPause = absl::Seconds(1);
constexpr char kAsTheyWere[] = "all shards as they were";
// Shards that are made for longer than this are told of.
constexpr absl::Duration kMakesForLong = absl::Seconds(2);

}  // namespace

absl::StatusOr<absl::optional<Attached>> Attacher::Attach(ShardGroup& shards) {
  tries_.Begin();
  unmaker_.Begin();
  closed_.clear();
  knows_closed_ = true;
  placed_again_ = false;
  shards.ForgetMoves();
  if (!job_->record().has_remake()) {
    tries_.BeginPauses();
    remaker_.Begin();
  }
  const absl::Cleanup give_back = [this] { environment_.memory_turn->GiveBack(job_->id()); };
  MILLRACE_RETURN_IF_ERROR(tries_.BeginGeneration(generation() + 1));
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(auto reached, Reach(shards));
    if (!reached) return absl::nullopt;
    Attached attached;
    attached.how = DescribeReturns(shards, *reached);
    MILLRACE_ASSIGN_OR_RETURN(auto together,
                              StepBackIfApart(shards, *std::move(reached), attached));
    if (placed_again_) return absl::nullopt;
    if (!together) continue;
    if (attached.how != kAsTheyWere) relocator_.Forget();
    MILLRACE_ASSIGN_OR_RETURN(const bool moved, relocator_.Move(shards, *together, generation()));
    if (moved) return absl::nullopt;
    const std::string moves = relocator_.TakeHow();
    if (!moves.empty() && attached.how == kAsTheyWere) attached.how = moves;
    attached.generation = generation();
    attached.shards = *std::move(together);
    DescribeRemake(shards, attached);
    shards.MarkMade();
    remaker_.AllGoOn();
    MILLRACE_ASSIGN_OR_RETURN(attached.merged, MergeProgress(attached.shards));
    const auto& placements = shards.placements();
    MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& record) {
      record.mutable_shards()->Assign(placements.begin(), placements.end());
      if (record.has_remake()) record.set_may_lack_steps(true);
      record.clear_remake();
    }));
    attached.may_lack_steps = job_->record().may_lack_steps();
    return attached;
  }
}

// Where shards were made again, that is what has happened.
void Attacher::DescribeRemake(const ShardGroup& shards, Attached& attached) const {
  const JobRecord record = job_->record();
  if (!record.has_remake()) return;
  attached.remake_cause = record.remake().cause();
  attached.how = attached.how == kAsTheyWere
                     ? record.remake().how()
                     : absl::StrCat(record.remake().how(), ", ", attached.how);
  attached.load = absl::ZeroDuration();
  for (const ShardStatus& shard : attached.shards) {
    if (!IsToBeMade(shards.placements()[shard.shard()])) continue;
    attached.load = std::max(*attached.load, FromProto(shard.load()));
  }
}

// "shard 1 from its cut of version 120", of those that came back.
std::string Attacher::DescribeReturns(const ShardGroup& shards, const Statuses& statuses) const {
  std::vector<std::string> returns;
  for (const ShardStatus& shard : statuses) {
    if (!shards.HasMoved(shard.shard()) && !closed_.contains(shard.shard())) continue;
    returns.push_back(absl::StrCat("shard ", shard.shard(), " ", DescribeOrigin(shard)));
  }
  return returns.empty() ? kAsTheyWere : absl::StrJoin(returns, ", ");
}

// Which shards are closed until they hear of the new generation: what people are told of losses
// depends on it, nothing else.
void Attacher::NoteClosed(ShardGroup& shards) {
  const auto statuses = shards.Get();
  if (!statuses.ok()) {
    knows_closed_ = false;
    return;
  }
  for (const ShardStatus& shard : *statuses) {
    if (shard.closed()) closed_.insert(shard.shard());
  }
}

// Before they are opened, or step back: who dies then would not see in its next life that anything
// was wrong.
absl::Status Attacher::NoteMayLackSteps() {
  if (job_->record().may_lack_steps()) return absl::OkStatus();
  return reporter_->Journal([](JobRecord& record) { record.set_may_lack_steps(true); });
}

// Calls every shard until all have answered, with no server leaving between the first and the last.
absl::StatusOr<absl::optional<ShardGroup::Statuses>> Attacher::Reach(ShardGroup& shards) {
  const bool is_new = job_->state() == PENDING;
  for (;;) {
    const absl::Time began = environment_.clock->Now();
    const std::string missing = shards.Locate();
    if (is_new && !missing.empty()) mover_.NoteMissing(shards, began);
    // Before anything is made, dropped or moved.
    if (const auto there = shards.GetThoseThere(); there.ok()) {
      MILLRACE_RETURN_IF_ERROR(CheckNotEnded(shards, *there));
    }
    MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
    if (is_new && shards.only_directories_are_lost()) {
      MILLRACE_ASSIGN_OR_RETURN(const bool displaced,
                                unmaker_.Displace(shards, job_->record().restored_from()));
      if (displaced) return absl::nullopt;
      MILLRACE_ASSIGN_OR_RETURN(const bool moved, mover_.Leave(shards));
      if (moved) return absl::nullopt;
      continue;
    }
    if (!missing.empty()) {
      if (is_new) {
        MILLRACE_RETURN_IF_ERROR(unmaker_.MakeWayInTime(shards).status());
        MILLRACE_ASSIGN_OR_RETURN(const bool moved, mover_.Leave(shards));
        if (moved) return absl::nullopt;
      } else {
        MILLRACE_ASSIGN_OR_RETURN(const bool remade, remaker_.ReplaceMissing(shards));
        if (remade) return absl::nullopt;
      }
      MILLRACE_RETURN_IF_ERROR(
          reporter_->WaitForMembers(remaker_.Explain(shards.missing()), kMissingPause));
      continue;
    }
    reporter_->NobodyIsMissing();
    remaker_.NobodyIsMissing();
    if (!is_new) NoteClosed(shards);
    unmaker_.NobodyIsMissing();
    if (shards.HasToDropFirst()) {
      bool remade = false;
      MILLRACE_ASSIGN_OR_RETURN(const bool dropped, DropFirst(shards, is_new, &remade));
      if (remade) return absl::nullopt;
      if (!dropped) continue;
    }
    if (!closed_.empty() || !knows_closed_) MILLRACE_RETURN_IF_ERROR(NoteMayLackSteps());
    bool remade = false;
    MILLRACE_ASSIGN_OR_RETURN(auto statuses, BringAll(shards, is_new, &remade));
    if (remade) return absl::nullopt;
    if (statuses && shards.Moved().empty()) return *std::move(statuses);
  }
}

// People are told who reads for long.
absl::StatusOr<ShardGroup::Statuses> Attacher::Bring(ShardGroup& shards, bool is_new) {
  const absl::Time since = environment_.clock->Now();
  bool told = false;
  auto statuses = shards.Bring(generation(), is_new, [&](const std::vector<uint32_t>& unmade) {
    if (unmade.empty() || environment_.clock->Now() - since < kMakesForLong) return;
    job_->SetWaiting(DescribeMaking(shards, unmade), since);
    told = true;
  });
  if (told) job_->ClearWaiting();
  return statuses;
}

// "shard 1 on ps-1 and others to read DIR/000017".
std::string Attacher::DescribeMaking(const ShardGroup& shards,
                                     const std::vector<uint32_t>& unmade) const {
  const ShardPlacement& first = shards.placements()[unmade.front()];
  std::string what = "make its variables";
  if (first.has_restore()) {
    what = absl::StrCat("read ", NameOf(first.restore()));
  } else if (job_->spec().has_warm_start()) {
    what = absl::StrCat("read ", job_->spec().warm_start().path());
  }
  return absl::StrCat(shards.NameOf(unmade.front()), unmade.size() > 1 ? " and others" : "", " to ",
                      what);
}

// One try. Nothing: look at all shards again; `remade`: they have other places now.
absl::StatusOr<absl::optional<ShardGroup::Statuses>> Attacher::BringAll(ShardGroup& shards,
                                                                        bool is_new, bool* remade) {
  const absl::Time began = environment_.clock->Now();
  auto statuses = Bring(shards, is_new);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (is_new && !statuses.ok()) mover_.NoteUnserved(shards, began);
  if (statuses.ok()) {
    MILLRACE_RETURN_IF_ERROR(CheckNotEnded(shards, *statuses));
    remaker_.AllAreThere();
    return *std::move(statuses);
  }
  const absl::Status& status = statuses.status();
  const bool is_to_be_made = IsToBeMade(shards.placements()[shards.failed_shard()]);
  const bool makes = is_new || is_to_be_made;
  const bool is_full = absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
  // What it reads hangs there, and perhaps not elsewhere.
  const bool hangs = !is_new && makes && absl::IsDeadlineExceeded(status);
  const ReachAction action = hangs ? ReachAction::kGiveUp : tries_.Decide(status);
  const bool is_unserved =
      !is_new && action == ReachAction::kRetry && remaker_.IsUnserved(shards, status);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  // Of a new job that was placed elsewhere: a call from then came late.
  const bool is_leftover = is_to_be_made && absl::IsAlreadyExists(status);
  const bool may_be_replaced = action == ReachAction::kGiveUp || (makes && is_full) || is_unserved;
  if (is_leftover || (!is_new && may_be_replaced)) {
    MILLRACE_ASSIGN_OR_RETURN(*remade, remaker_.ReplaceFailed(shards, status));
    // What goes on for long does not keep the journal and the servers busy.
    if (*remade && makes) MILLRACE_RETURN_IF_ERROR(tries_.Pause(shards, status));
    if (*remade) return absl::nullopt;
    if (!makes) remaker_.NoteLost(shards, status);
  }
  if (action == ReachAction::kAskWhoIsNew) {
    MILLRACE_RETURN_IF_ERROR(tries_.AdoptGeneration(shards, status));
    return absl::nullopt;
  }
  const bool means_furthest =
      job_->spec().has_restore() && job_->spec().restore().checkpoint() == 0;
  if (is_new && means_furthest && (absl::IsDataLoss(status) || absl::IsNotFound(status))) {
    MILLRACE_ASSIGN_OR_RETURN(const auto begins, BeginWithAnother(shards, status));
    *remade = begins.value_or(false);
    if (begins) return absl::nullopt;
  }
  // A shard that is not there, or damaged, is as one whose server is away: the right disk may yet
  // be mounted.
  const bool may_come = makes || absl::IsNotFound(status) || absl::IsDataLoss(status);
  const bool is_final = is_new     ? !mover_.MayFindRoom(status)
                        : may_come ? remaker_.IsHopeless()
                                   : !remaker_.waits_for_files();
  if (action == ReachAction::kGiveUp && is_final) return remaker_.Explain(status);
  bool unmade = false;
  if (is_new || (makes && absl::IsResourceExhausted(status))) {
    MILLRACE_ASSIGN_OR_RETURN(unmade, unmaker_.MakeWay(shards, status));
  }
  if (is_new) {
    MILLRACE_ASSIGN_OR_RETURN(*remade,
                              is_full ? mover_.TakeMoreServers(shards) : mover_.Leave(shards));
    if (*remade) return absl::nullopt;
  }
  // What is read of a checkpoint before it turns out to be damaged costs servers work as well.
  const bool is_costly = unmade || absl::IsDataLoss(status);
  MILLRACE_RETURN_IF_ERROR(tries_.Pause(shards, remaker_.Explain(status), is_costly));
  return absl::nullopt;
}

// A shard is retired when the job's end is in the journal, and takes no step after that.
absl::Status Attacher::CheckNotEnded(const ShardGroup& shards, const Statuses& statuses) {
  const auto is_retired = [](const ShardStatus& shard) { return shard.retired(); };
  const auto retired = std::find_if(statuses.begin(), statuses.end(), is_retired);
  if (retired == statuses.end()) return absl::OkStatus();
  // Shards of a job that has not started are dropped at its end.
  if (!job_->record().has_started()) {
    MILLRACE_RETURN_IF_ERROR(reporter_->Journal([this](JobRecord& record) {
      *record.mutable_started() = ToTimestamp(environment_.clock->Now());
    }));
  }
  const bool are_all = statuses.size() == shards.placements().size() &&
                       std::all_of(statuses.begin(), statuses.end(), is_retired);
  return absl::FailedPreconditionError(absl::StrCat(
      shards.NameOf(retired->shard()), " says that the job has ended, which the coordinator's ",
      "journal does not know: it is an older copy, or was cut short; ",
      are_all
          ? "the job's variables are as they were at its end, and can be exported"
          : "others of its shards are not as they were at its end, or not where they were: take "
            "its variables from a checkpoint"));
}

// What is to be made again goes first. False: that cannot be done now; `remade`: shards have other
// places now.
absl::StatusOr<bool> Attacher::DropFirst(ShardGroup& shards, bool is_new, bool* remade) {
  const absl::Time began = environment_.clock->Now();
  const absl::Status dropped = shards.DropFirst(generation());
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (dropped.ok()) {
    const auto& placements = shards.placements();
    // A call that was given up may arrive yet, and must not drop what is made next.
    const uint64_t next = generation() + 1;
    MILLRACE_RETURN_IF_ERROR(tries_.BeginGeneration(next));
    MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& record) {
      record.mutable_shards()->Assign(placements.begin(), placements.end());
    }));
    return true;
  }
  switch (tries_.Decide(dropped)) {
    case ReachAction::kAskWhoIsNew:
      MILLRACE_RETURN_IF_ERROR(tries_.AdoptGeneration(shards, dropped));
      return false;
    case ReachAction::kGiveUp:
      return dropped;
    default:
      if (is_new) {
        mover_.NoteUnserved(shards, began);
        MILLRACE_RETURN_IF_ERROR(unmaker_.MakeWayInTime(shards).status());
        MILLRACE_ASSIGN_OR_RETURN(*remade, mover_.Leave(shards));
        if (*remade) return false;
      } else if (remaker_.IsUnserved(shards, dropped)) {
        MILLRACE_ASSIGN_OR_RETURN(*remade, remaker_.ReplaceFailed(shards, dropped));
      }
      MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
      MILLRACE_RETURN_IF_ERROR(tries_.Pause(shards, dropped));
      return false;
  }
}

// A server does not find the furthest checkpoint, with which a new job was to begin, or found it
// damaged when it read the values. One that its run has removed since it was chosen has newer ones
// after it; otherwise a newer one is never taken, and an older one only for damage. False: nothing
// can be done now. Nothing: there is no other one that it should begin with.
absl::StatusOr<absl::optional<bool>> Attacher::BeginWithAnother(ShardGroup& shards,
                                                                const absl::Status& status) {
  const auto interrupted = [this] { return !inbox_->interrupt().ok(); };
  const absl::Status there = shards.Look(shards.failed_shard());
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (absl::IsDataLoss(there)) return there;  // Of the server's own disk.
  JobRecord record = job_->record();
  const ShardRestore chosen = record.restored_from().checkpoint();
  MILLRACE_ASSIGN_OR_RETURN(const bool is_removed, remaker_.IsRemoved(chosen));
  if (!is_removed && !absl::IsDataLoss(status)) return absl::optional<bool>();
  if (is_removed) record.clear_restored_from();
  const auto notices = ResolveRestore(environment_, interrupted, record);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (absl::IsUnavailable(notices.status())) {
    MILLRACE_RETURN_IF_ERROR(reporter_->Wait("the checkpoint that it begins with", kMissingPause,
                                             std::string(notices.status().message())));
    return false;
  }
  absl::Status usable = notices.status();
  // The directory may not be mounted at the moment.
  if (is_removed && absl::IsNotFound(usable)) return absl::optional<bool>();
  const RestoredFrom& from = record.restored_from();
  if (usable.ok()) usable = CheckRestoredPlan(record.plan(), from.plan());
  if (usable.ok()) usable = CheckDivision(record, record.plan().variables());
  if (!usable.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(std::string(status.message()), "; none ", is_removed ? "after" : "before",
                     " it can be taken: ", std::string(usable.message())));
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool displaced, unmaker_.Displace(shards, from));
  if (!displaced) return false;
  TellOther(NameOf(chosen), is_removed, from, status);
  for (const std::string& notice : *notices) job_->AppendNotice(notice);
  return true;
}

void Attacher::TellOther(const std::string& chosen, bool is_removed, const RestoredFrom& from,
                         const absl::Status& status) const {
  const std::string other = absl::StrCat(NameOf(from.checkpoint()), " at step ", from.step());
  job_->AppendNotice(
      is_removed
          ? absl::StrCat("checkpoint ", chosen, ", with which the job was to begin, was removed, ",
                         "and the furthest, ", other, ", is taken")
          : absl::StrCat("checkpoint ", chosen, " cannot be used, and the one before, ", other,
                         ", is taken: ", std::string(status.message())));
}

// False: not to that cut. Shards are made again from a checkpoint, which has more; or the directory
// of one that has more does not answer.
absl::StatusOr<bool> Attacher::MayGoBack(ShardGroup& shards, const AttachDecision& decision) {
  const uint64_t version = decision.cut.version();
  MILLRACE_ASSIGN_OR_RETURN(
      placed_again_,
      remaker_.ReplaceByFurther(shards, decision.steps,
                                absl::StrCat(decision.why, ", and the newest cut that all have is ",
                                             "of version ", version)));
  if (placed_again_) return false;
  const bool waits =
      remaker_.waits_for_files() && job_->record().checkpoint().step() > decision.steps;
  if (waits) {
    MILLRACE_RETURN_IF_ERROR(
        reporter_->Wait("its checkpoint", tries_.NextPause(), remaker_.why_not()));
  }
  return !waits;
}

// Nothing: look at all shards again.
absl::StatusOr<absl::optional<ShardGroup::Statuses>> Attacher::StepBackIfApart(ShardGroup& shards,
                                                                               Statuses statuses,
                                                                               Attached& attached) {
  const uint32_t replicas = Replicas(job_->spec());
  const AttachDecision decision = DecideAttach(statuses, replicas);
  if (!decision.step_back) return statuses;
  MILLRACE_ASSIGN_OR_RETURN(const bool goes_back, MayGoBack(shards, decision));
  if (!goes_back) return absl::nullopt;
  LOG(INFO) << job_->id() << ": " << decision.why << "; all shards step back to version "
            << decision.cut.version() << " of epoch " << decision.cut.epoch();
  MILLRACE_RETURN_IF_ERROR(NoteMayLackSteps());
  auto stepped = shards.StepBack(generation(), decision.cut, decision.epoch);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (!stepped.ok()) {
    const absl::Status status = AsStepBackRefusal(stepped.status());
    if (tries_.Decide(status) == ReachAction::kGiveUp) {
      // No cut is left that all of them can read: a shard is there, and has lost it.
      const absl::Status loss =
          absl::IsNotFound(status) ? absl::DataLossError(status.message()) : status;
      MILLRACE_ASSIGN_OR_RETURN(placed_again_, remaker_.ReplaceFailed(shards, loss));
      if (placed_again_) return absl::nullopt;
      if (!remaker_.waits_for_files()) return remaker_.Explain(status);
    } else if (remaker_.IsStuck(shards, status)) {
      MILLRACE_ASSIGN_OR_RETURN(placed_again_, remaker_.ReplaceFailed(shards, status));
      if (placed_again_) return absl::nullopt;
    }
    MILLRACE_RETURN_IF_ERROR(
        tries_.Pause(shards, remaker_.Explain(status), /*is_costly=*/absl::IsDataLoss(status)));
    // A call that was given up may arrive yet, and not at a shard that trains again.
    MILLRACE_RETURN_IF_ERROR(tries_.BeginGeneration(generation() + 1));
    return absl::nullopt;
  }
  if (!shards.Moved().empty()) return absl::nullopt;
  if (DecideAttach(*stepped, replicas).step_back) {
    MILLRACE_RETURN_IF_ERROR(
        reporter_->Wait("the shards to step back together", tries_.NextPause()));
    return absl::nullopt;
  }
  absl::StrAppend(&attached.how, "; all shards stepped back to version ", decision.cut.version(),
                  " (", decision.why, ")");
  return *std::move(stepped);
}

}  // namespace millrace::coordinator
