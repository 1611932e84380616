#include "coordinator/jobs/job_facts.h"

#include <algorithm>
#include <utility>

#include "common/applied_set.h"
#include "common/job_spec.h"
#include "common/job_state.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kMostRecent = 20;
constexpr size_t kMostMissing = 64;
// A member that has not spoken for so many heartbeats is told of as silent.
constexpr double kSilentPeriods = 1.5;

bool IsWorthTelling(const JobEvent& event) {
  return event.has_recovered() || event.has_checkpoint_ended() || event.has_notice();
}

MemberFacts FactsOf(const MemberNews& member, const std::string& job_id, absl::Time now,
                    absl::Duration heartbeat_period) {
  MemberFacts facts;
  facts.name = member.name;
  facts.is_worker = member.is_worker;
  facts.device = member.device;
  facts.device_use = member.device_use;
  const absl::Duration silent = now - member.heard;
  if (silent > kSilentPeriods * heartbeat_period) facts.silent = silent;
  for (const Activity& told : member.activities) {
    if (told.job_id() != job_id || !IsValid(told.since())) continue;
    Activity activity = told;
    *activity.mutable_since() = ToProto(FromProto(told.since()) + (now - member.told));
    facts.activities.push_back(std::move(activity));
  }
  return facts;
}

// Of the steps of a version, those that a shard does not hold.
std::vector<uint64_t> MissingOf(const ShardStatus& shard, uint32_t replicas, uint64_t total_steps) {
  const auto held = AppliedSet::FromProto(shard.held());
  if (replicas == 0 || !held.ok()) return {};
  std::vector<uint64_t> missing;
  const uint64_t begin = shard.version() * replicas;
  const uint64_t end = std::min(begin + replicas, total_steps);
  for (uint64_t step = begin; step < end && missing.size() < kMostMissing; ++step) {
    if (!held->Contains(step)) missing.push_back(step);
  }
  return missing;
}

ShardFacts FactsOf(uint32_t shard, const std::string& server, const ShardNews& news,
                   const JobStatus& job, absl::Time now) {
  ShardFacts facts;
  facts.shard = shard;
  facts.server = server;
  facts.error = Printable(news.error);
  if (news.silent_since < now) facts.silent = now - news.silent_since;
  if (!news.status) return facts;
  facts.is_known = true;
  facts.version = news.status->version();
  facts.trouble = Printable(news.status->trouble());
  if (const auto applied = AppliedSet::FromProto(news.status->applied()); applied.ok()) {
    facts.steps = applied->size();
  }
  facts.missing = MissingOf(*news.status, Replicas(job.spec()), job.total_steps());
  return facts;
}

void AddMembers(const Job& job, const RunnerEnvironment& environment, ExplainFacts& facts) {
  const absl::Time now = environment.clock->Now();
  const absl::Duration period = environment.registry->heartbeat_period();
  const MembersView view = environment.registry->View();
  for (const MemberNews& member : view.there) {
    facts.members[member.id] = FactsOf(member, job.id(), now, period);
  }
  const absl::Time began = FromTimestamp(facts.status.started());
  for (const Departure& gone : view.gone) {
    // It did no step of it.
    if (gone.is_worker && gone.at < began) continue;
    facts.departures.push_back({.name = gone.name,
                                .is_worker = gone.is_worker,
                                .since = now - gone.at,
                                .reason = gone.reason,
                                .in_good_order = gone.in_good_order});
  }
}

}  // namespace

ExplainFacts GatherFacts(Job& job, const RunnerEnvironment& environment) {
  const absl::Time now = environment.clock->Now();
  ExplainFacts facts;
  facts.status = job.Status();
  if (const auto waiting = job.waiting()) {
    facts.wait = RunnerWait{.whom = waiting->whom,
                            .since = now - waiting->since,
                            .is_turn = waiting->is_turn,
                            .stalled = waiting->stalled};
  }
  const Job::Recovering recovering = job.recovering();
  facts.recovers_from = recovering.cause;
  if (!recovering.cause.empty()) facts.recovers_since = now - recovering.since;
  facts.dispatch = environment.dispatcher->View(job.id());
  AddMembers(job, environment, facts);
  const JobRecord record = job.record();
  std::vector<ShardNews> news = job.shard_news();
  news.resize(record.shards_size());
  for (int shard = 0; shard < record.shards_size() && !HasEnded(record.state()); ++shard) {
    facts.shards.push_back(
        FactsOf(shard, record.shards(shard).server(), news[shard], facts.status, now));
  }
  facts.recent = job.events().Newest(kMostRecent, IsWorthTelling);
  return facts;
}

}  // namespace millrace::coordinator
