// What the shards say when they are asked once a second: what people are told of it, whether
// training can go on, and whether workers have reported what is true (see trainer.cc).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "coordinator/run/trainer.h"
#include "coordinator/run/worker_waits.h"
#include "coordinator/shards/merge_progress.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kPollPeriod = absl::Seconds(1);
// While a cut is waited for: by a checkpoint, or as the first one that is common after a start.
constexpr absl::Duration kQuickPollPeriod = absl::Milliseconds(100);
constexpr absl::Duration kWaitsForSure = absl::Seconds(3);

}  // namespace

absl::Duration Trainer::PollPeriod() const {
  const bool quick = checkpointer_ != nullptr && checkpointer_->awaits_cut();
  return quick ? kQuickPollPeriod : kPollPeriod;
}

void Trainer::StartPollIfDue(ShardGroup& shards) {
  if (shards.polling() || clock_->Now() < poll_due_) return;
  poll_due_ = clock_->Now() + PollPeriod();
  watch_.Begin(clock_->Now());
  audit_.BeginCheck();
  absl::optional<PlanCutsRequest> plan;
  if (synchronous_) plan = cuts_.Plan(generation_, clock_->Now());
  // The poll may outlive this object; the inbox outlives the shards.
  shards.StartPoll(plan, [inbox = &inbox_] { inbox->Wake(); });
}

// Returns false when the shards must be attached again.
bool Trainer::HandlePoll(ShardGroup& shards) {
  const absl::Time now = clock_->Now();
  const auto poll = shards.TakePoll();
  if (!watch_.has_begun()) return true;
  const bool is_news = poll ? watch_.NoteAnswers(*poll, now)
                            : shards.polling() && watch_.NoteUnanswered(shards.Unanswered(), now);
  if (is_news) job_.SetShardNews(watch_.news());
  if (!poll) return true;
  if (const auto warnings = watch_.TakeWarnings(*poll, shards.servers())) {
    reporter_.SetWarnings(*warnings);
  }
  if (std::string why = watch_.WhyNotOurs(*poll, shards.servers()); !why.empty()) {
    Detach(std::move(why));
    return false;
  }
  const bool all = std::all_of(poll->errors.begin(), poll->errors.end(),
                               [](const absl::Status& status) { return status.ok(); });
  if (!all) return true;
  seen_ = poll->shards;
  newest_version_ = std::max(newest_version_, NewestVersion(seen_));
  const bool is_news_for_them = cuts_.Observe(seen_, now);
  if (synchronous_ && is_news_for_them) {
    poll_due_ = now;
  } else if (synchronous_ && cuts_.AwaitsFirstCommon(now)) {
    poll_due_ = std::min(poll_due_, now + kQuickPollPeriod);
  }
  return !Audit(seen_);
}

// A server that is a member, and that neither we nor the workers can call, is waited for as one
// that is gone; where its shards can be made elsewhere. Longer where workers went on without us:
// what it has is intact, and only our way to it is cut.
bool Trainer::IsUnserved(const ShardGroup& shards, const Evaluator& evaluator) {
  const absl::Time now = clock_->Now();
  const uint64_t applied = environment_.dispatcher->GetProgress(job_.id()).value().applied;
  if (std::exchange(applied_, applied) != applied) moved_at_ = now;
  const auto unserved = watch_.UnservedLongest();
  if (!unserved) return false;
  const bool went_on = moved_at_ - unserved->since > environment_.restore_grace;
  const absl::Duration patience =
      went_on ? environment_.member_timeout : environment_.restore_grace;
  if (unserved->last - std::max(unserved->since, moved_at_) < patience) return false;
  const JobRecord record = job_.record();
  if (!record.has_checkpoint() && !record.has_restored_from()) return false;
  if (environment_.registry->PsServers().size() < 2) return false;
  if (!OthersAnswer(unserved->shard, shards)) return false;
  if (!IsHeldUpBy(unserved->shard, shards, evaluator)) return false;
  unserved_ = unserved;
  Detach(absl::StrCat(shards.NameOf(unserved->shard), " is not served"));
  return true;
}

// False: nobody does but the shard's server, if that. It is we who are cut off.
bool Trainer::OthersAnswer(uint32_t shard, const ShardGroup& shards) const {
  const auto& placements = shards.placements();
  bool has_others = false;
  for (uint32_t other = 0; other < placements.size(); ++other) {
    if (placements[other].directory_id() == placements[shard].directory_id()) continue;
    if (watch_.news().at(other).silent_since == absl::InfiniteFuture()) return true;
    has_others = true;
  }
  return !has_others;
}

// Whether the job cannot go on without the shard's server, as we know or workers say.
bool Trainer::IsHeldUpBy(uint32_t shard, const ShardGroup& shards,
                         const Evaluator& evaluator) const {
  if (blocked_ || norms_.stall()) return true;
  if (evaluator.under_way() && evaluator.has_failed()) return true;
  return WorkersWaitFor(shards.placements()[shard].directory_id(), job_.id(), shards.placements(),
                        environment_.registry->News(), clock_->Now(),
                        {.sure = std::min(kWaitsForSure, environment_.restore_grace),
                         .longest_work = environment_.member_timeout});
}

// `shards` were asked since the audit's check began. Returns whether a report was not true.
bool Trainer::Audit(const std::vector<ShardStatus>& shards) {
  for (const ShardStatus& shard : shards) {
    if (shard.closed() || shard.generation() != generation_) return false;
  }
  const auto merged = MergeProgress(shards);
  if (!merged.ok()) return false;
  std::vector<std::string> all;
  for (const ReportAudit::Offence& offence : audit_.Check(merged->done)) {
    all.push_back(absl::StrCat(offence.worker, " reported steps that shards have not got (step ",
                               offence.step, ", ", offence.steps, " in all)"));
    job_.AppendNotice(absl::StrCat(
        all.back(), offence.excluded ? "; it gets no more steps of this job" : "; they run again"));
    if (offence.excluded) Exclude(offence.worker);
  }
  if (all.empty()) return false;
  reports_are_false_ = true;
  Detach(absl::StrJoin(all, "; "));
  return true;
}

void Trainer::Exclude(const std::string& worker) {
  for (const WorkerMember& member : environment_.registry->Workers()) {
    if (member.registration.name() != worker) continue;
    environment_.dispatcher->SetPrepared(member.id, Refusal(job_.id(), audit_.WhyExcluded(worker)));
  }
}

JobPrepared Trainer::Refusal(const std::string& job_id, const std::string& why) {
  JobPrepared refusal;
  refusal.set_job_id(job_id);
  refusal.set_code(static_cast<int>(absl::StatusCode::kPermissionDenied));
  refusal.set_message(why);
  return refusal;
}

// A worker that has a step may itself wait for a server that does not answer.
absl::optional<Dispatcher::Stall> Trainer::FindStall(const ShardGroup& shards) const {
  if (const auto silent = watch_.SilentLongest(clock_->Now())) {
    const uint32_t shard = *silent;
    const std::string& answer = watch_.news().at(shard).error;
    const std::string error = answer.empty() ? "" : absl::StrCat(" (", Printable(answer), ")");
    return Dispatcher::Stall{
        absl::StrCat(shards.servers().DescribeServer(shard), ", which has shard ", shard,
                     " and does not answer", error, ","),
        /*since=*/absl::InfinitePast()};
  }
  auto stall = environment_.dispatcher->FindStall(job_.id());
  if (!stall || !synchronous_ || seen_.empty()) return stall;
  const auto by_version = [](const auto& a, const auto& b) { return a.version() < b.version(); };
  const auto [oldest, newest] = std::minmax_element(seen_.begin(), seen_.end(), by_version);
  if (oldest->version() < newest->version()) {
    absl::StrAppend(&stall->whom, " (", shards.NameOf(oldest->shard()), " is at version ",
                    oldest->version(), ", others at ", newest->version(), ")");
  }
  return stall;
}

}  // namespace millrace::coordinator
