// What keeps a job waiting is looked for from the outside in: whether it has begun at all, what its
// runner waits for, servers that do not answer, workers that have steps for too long, and nobody to
// take steps. The first that is found is the verdict. A worker that waits for a server that does
// not answer is no culprit, and neither is one that waits for a version: the step that the version
// lacks is lower, and its owner is named.
#include "coordinator/explain/explain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/job_state.h"
#include "common/proto_duration.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kMostWaits = 20;
constexpr int kMostMissing = 64;
constexpr double kWorthTelling = 1.5;
// A member that left in disorder is told of for this long by a job that gets on without it.
constexpr absl::Duration kDepartureIsNews = absl::Minutes(5);

struct Finding {
  std::string whom;
  std::string what;
  absl::Duration since;  // 0: not known.
  std::string sentence;
};

std::string For(absl::Duration since) {
  return since > absl::ZeroDuration() ? absl::StrCat(" for ", DescribeDuration(since)) : "";
}

class Explainer {
 public:
  explicit Explainer(const ExplainFacts& facts)
      : facts_(facts), replicas_(Replicas(facts.status.spec())) {}

  JobExplanation Explain() {
    FindWaits();
    JobExplanation told;
    *told.mutable_status() = facts_.status;
    told.set_verdict(Verdict());
    for (size_t i = 0; i < std::min(waits_.size(), kMostWaits); ++i) {
      Wait& wait = *told.add_waits();
      wait.set_whom(waits_[i].whom);
      wait.set_what(waits_[i].what);
      if (waits_[i].since > absl::ZeroDuration()) *wait.mutable_since() = ToProto(waits_[i].since);
    }
    for (const WorkerView& worker : facts_.dispatch.workers) *told.add_workers() = Report(worker);
    AddMembersOutsideTheJob(told);
    for (const ShardFacts& shard : facts_.shards) *told.add_shards() = Report(shard);
    for (const JobEvent& event : facts_.recent) *told.add_recent() = event;
    return told;
  }

 private:
  void FindWaits() {
    if (HasEnded(facts_.status.state())) return;
    FindWaitsOfRunner();
    if (facts_.wait && facts_.wait->is_turn) return;
    FindSilentServers();
    FindLateSteps();
    FindEvaluations();
    FindIdleness();
    const bool unexplained = waits_.empty() && facts_.wait;
    if (unexplained) AddRunnersWait(*facts_.wait);
  }

  void FindWaitsOfRunner() {
    if (facts_.wait && !facts_.wait->stalled) AddRunnersWait(*facts_.wait);
    if (!facts_.recovers_from.empty()) {
      waits_.push_back({"all shards", "to say what they have", facts_.recovers_since,
                        absl::StrCat("the job comes back", For(facts_.recovers_since), ": ",
                                     facts_.recovers_from)});
    }
  }

  void AddRunnersWait(const RunnerWait& wait) {
    if (wait.is_turn) {
      waits_.push_back({"its turn", wait.whom, wait.since, absl::StrCat("the job ", wait.whom)});
      return;
    }
    std::string sentence = absl::StrCat("the job waits for ", wait.whom, For(wait.since));
    if (absl::StartsWith(wait.whom, "a worker (none is connected)")) {
      if (const DepartureFacts* last = LastWorker()) {
        absl::StrAppend(&sentence, "; ", Describe(*last));
      }
    }
    waits_.push_back({wait.whom, "", wait.since, std::move(sentence)});
  }

  const DepartureFacts* LastWorker() const {
    for (const DepartureFacts& departure : facts_.departures) {
      if (departure.is_worker) return &departure;
    }
    return nullptr;
  }

  static std::string Describe(const DepartureFacts& departure) {
    return absl::StrCat(departure.name, " is gone", For(departure.since), " (", departure.reason,
                        ")");
  }

  void FindSilentServers() {
    for (const ShardFacts& shard : facts_.shards) {
      const absl::Duration silent = std::max(shard.silent, SilenceOf(shard.server));
      if (silent <= absl::ZeroDuration()) continue;
      std::string sentence = absl::StrCat(shard.server, ", which has shard ", shard.shard,
                                          ", does not answer", For(silent));
      if (!shard.error.empty()) absl::StrAppend(&sentence, " (", shard.error, ")");
      waits_.push_back({shard.server, absl::StrCat("to answer for shard ", shard.shard), silent,
                        std::move(sentence)});
    }
  }

  // Of a ps server, by name.
  absl::Duration SilenceOf(const std::string& server) const {
    for (const auto& [id, member] : facts_.members) {
      if (!member.is_worker && member.name == server) return member.silent;
    }
    return absl::ZeroDuration();
  }

  struct LateStep {
    const WorkerView* worker;
    const LeaseView* lease;
  };

  void FindLateSteps() {
    std::vector<LateStep> late;
    for (const WorkerView& worker : facts_.dispatch.workers) {
      for (const LeaseView& lease : worker.leases) {
        // What has expired is no wait once another worker has it.
        const bool waited_for = lease.expired ? facts_.dispatch.can_take : lease.late;
        if (waited_for) late.push_back({&worker, &lease});
      }
    }
    std::sort(late.begin(), late.end(), [](const LateStep& a, const LateStep& b) {
      return std::make_pair(a.lease->step, -a.lease->out) <
             std::make_pair(b.lease->step, -b.lease->out);
    });
    for (const LateStep& step : late) waits_.push_back(Explain(*step.worker, *step.lease));
  }

  std::string DescribeStep(uint64_t step) const {
    if (replicas_ == 0) return absl::StrCat("step ", step);
    return absl::StrCat("step ", step, " (version ", step / replicas_, ")");
  }

  Finding Explain(const WorkerView& worker, const LeaseView& lease) const {
    Finding finding;
    finding.whom = worker.name;
    finding.since = lease.out;
    std::string does = absl::StrCat("has had ", DescribeStep(lease.step), For(lease.out));
    finding.what = absl::StrCat("to compute ", DescribeStep(lease.step));
    const MemberFacts* member = Member(worker.worker);
    if (member != nullptr && member->silent > absl::ZeroDuration()) {
      absl::StrAppend(&does, "; nothing was heard of it", For(member->silent));
    }
    if (const Activity* activity = ActivityFor(member, lease.step, worker)) {
      absl::StrAppend(&does, "; it ", Describe(*activity));
      if (activity->kind() == Activity::PUSHING || activity->kind() == Activity::PULLING) {
        finding.what =
            absl::StrCat(activity->kind() == Activity::PUSHING ? "to push " : "to pull for ",
                         DescribeStep(lease.step), PlaceOf(*activity));
        absl::StrAppend(&does, ServerRemark(*activity));
      }
    }
    finding.sentence = absl::StrCat(worker.name, " ", does);
    return finding;
  }

  const MemberFacts* Member(uint64_t worker) const {
    const auto member = facts_.members.find(worker);
    return member == facts_.members.end() ? nullptr : &member->second;
  }

  // What it says of this step; or what else keeps it from it: not a step that it has done since it
  // was last heard of.
  static const Activity* ActivityFor(const MemberFacts* member, uint64_t step,
                                     const WorkerView& worker) {
    if (member == nullptr) return nullptr;
    const Activity* busy = nullptr;
    for (const Activity& activity : member->activities) {
      const bool has_step =
          activity.kind() == Activity::READING || activity.kind() == Activity::PULLING ||
          activity.kind() == Activity::COMPUTING || activity.kind() == Activity::PUSHING;
      if (has_step && activity.step() == step) return &activity;
      const bool is_out =
          std::any_of(worker.leases.begin(), worker.leases.end(),
                      [&](const LeaseView& lease) { return lease.step == activity.step(); });
      const bool is_old_news = has_step && !is_out && member->silent > absl::ZeroDuration();
      if (activity.kind() != Activity::IDLE && !is_old_news) busy = &activity;
    }
    return busy;
  }

  // Whose answer it waits for; null: not known.
  const ShardFacts* ShardOf(const Activity& activity) const {
    const bool is_known = activity.has_shard() && activity.shard() < facts_.shards.size();
    return is_known ? &facts_.shards[activity.shard()] : nullptr;
  }

  // To be put after what is pulled or pushed; empty: not known.
  std::string PlaceOf(const Activity& activity) const {
    if (!activity.has_shard()) return "";
    const ShardFacts* shard = ShardOf(activity);
    return absl::StrCat(
        activity.kind() == Activity::PUSHING ? " to shard " : " of shard ", activity.shard(),
        shard == nullptr ? ""
                         : absl::StrCat(activity.kind() == Activity::PUSHING ? " on " : " from ",
                                        shard->server));
  }

  // The server answers the coordinator, so whoever cannot reach it is to blame, or what is between.
  std::string ServerRemark(const Activity& activity) const {
    const ShardFacts* shard = ShardOf(activity);
    if (shard == nullptr || !shard->is_known || shard->silent > absl::ZeroDuration()) return "";
    if (activity.kind() == Activity::PULLING && replicas_ > 0 &&
        shard->version < activity.version()) {
      return absl::StrCat(", which is at version ", shard->version);
    }
    return ", which answers the coordinator: see what is between them";
  }

  std::string Describe(const Activity& activity) const {
    const std::string since = For(FromProto(activity.since()));
    switch (activity.kind()) {
      case Activity::IDLE:
        return absl::StrCat("has waited for a step", since);
      case Activity::PREPARING:
        return absl::StrCat("has been opening the data and compiling the model", since);
      case Activity::READING:
        return absl::StrCat("has been reading the examples of step ", activity.step(), since);
      case Activity::PULLING:
        return absl::StrCat(
            "has been pulling ",
            replicas_ > 0 ? absl::StrCat("version ", activity.version()) : "the values",
            PlaceOf(activity), since);
      case Activity::COMPUTING:
        return absl::StrCat("has been computing step ", activity.step(), since);
      case Activity::PUSHING:
        return absl::StrCat("has been pushing step ", activity.step(), PlaceOf(activity), since);
      case Activity::EVALUATING:
        return absl::StrCat("has been evaluating", since);
      default:
        return "does something that this coordinator does not know";
    }
  }

  // At a barrier nothing goes before the state is evaluated.
  void FindEvaluations() {
    if (!facts_.dispatch.at_barrier) return;
    for (const WorkerView& worker : facts_.dispatch.workers) {
      if (!worker.evaluates) continue;
      std::string sentence =
          absl::StrCat(worker.name, " has been evaluating the model", For(*worker.evaluates),
                       ", and the next step waits for it");
      const MemberFacts* member = Member(worker.worker);
      if (member != nullptr && member->silent > absl::ZeroDuration()) {
        absl::StrAppend(&sentence, "; nothing was heard of it", For(member->silent));
      }
      waits_.push_back({worker.name, "to evaluate the model", *worker.evaluates, sentence});
    }
  }

  // There are steps that nobody takes.
  void FindIdleness() {
    const JobView& job = facts_.dispatch;
    if (!job.started || job.paused || !job.can_take || !waits_.empty()) return;
    for (const WorkerView& worker : job.workers) {
      if (worker.has_answered && worker.refusal.empty() && worker.faults < 2 && !worker.draining &&
          !std::any_of(worker.leases.begin(), worker.leases.end(),
                       [](const LeaseView& lease) { return lease.expired; }) &&
          worker.other_leases == 0) {
        return;  // It takes them at once.
      }
    }
    for (const WorkerView& worker : job.workers) {
      const std::string trouble = TroubleOf(worker);
      if (trouble.empty()) continue;
      waits_.push_back({worker.name, "to take steps", absl::ZeroDuration(),
                        absl::StrCat(worker.name, " ", trouble)});
    }
  }

  // Why it takes no steps, to be put after its name; empty: it does.
  std::string TroubleOf(const WorkerView& worker) const {
    const MemberFacts* member = Member(worker.worker);
    if (!worker.refusal.empty()) return absl::StrCat("cannot run the job: ", worker.refusal);
    if (!worker.has_answered) {
      std::string trouble = "opens the data and compiles the model";
      const Activity* activity = ActivityFor(member, 0, worker);
      if (activity != nullptr && activity->kind() == Activity::PREPARING) {
        absl::StrAppend(&trouble, For(FromProto(activity->since())));
      }
      return trouble;
    }
    if (worker.draining) return "is about to stop";
    if (worker.faults > 1) {
      return absl::StrCat("gives steps back undone, ", worker.faults, " in a row; ",
                          worker.last_fault);
    }
    for (const LeaseView& lease : worker.leases) {
      if (lease.expired) {
        return absl::StrCat("has had ", DescribeStep(lease.step), For(lease.out),
                            ", longer than its lease, and keeps a slot");
      }
    }
    if (member != nullptr && member->silent > absl::ZeroDuration()) {
      return absl::StrCat("is silent", For(member->silent));
    }
    if (worker.leases.empty() && worker.other_leases > 0) return "computes for other jobs";
    return "";
  }

  std::string Verdict() const {
    const JobState state = facts_.status.state();
    if (HasEnded(state)) {
      return absl::StrCat("the job has ended: ", JobState_Name(state),
                          facts_.status.message().empty() ? "" : ": ", facts_.status.message());
    }
    if (!waits_.empty()) return waits_.front().sentence;
    if (state == PENDING) return "the job is about to begin";
    const std::string remark = Remark();
    return remark.empty() ? "the job gets on, and nobody keeps it waiting"
                          : absl::StrCat("the job gets on; ", remark);
  }

  // What is worth telling of a job that gets on.
  std::string Remark() const {
    if (facts_.status.warnings_size() > 0) return absl::StrJoin(facts_.status.warnings(), "; ");
    for (const ShardFacts& shard : facts_.shards) {
      if (!shard.trouble.empty()) return absl::StrCat(shard.server, ": ", shard.trouble);
    }
    std::vector<std::string> troubles;
    for (const WorkerView& worker : facts_.dispatch.workers) {
      const std::string trouble = TroubleOf(worker);
      const bool is_trouble = !trouble.empty() && worker.has_answered && worker.other_leases == 0;
      if (is_trouble) troubles.push_back(absl::StrCat(worker.name, " ", trouble));
    }
    if (!troubles.empty()) return absl::StrJoin(troubles, "; ");
    for (const DepartureFacts& departure : facts_.departures) {
      if (departure.in_good_order || departure.since > kDepartureIsNews) continue;
      return Describe(departure);
    }
    for (const WorkerView& worker : facts_.dispatch.workers) {
      if (!worker.has_answered) return absl::StrCat(worker.name, " ", TroubleOf(worker));
    }
    return SlowestWorker();
  }

  std::string SlowestWorker() const {
    const auto& workers = facts_.dispatch.workers;
    const auto slowest = std::max_element(
        workers.begin(), workers.end(),
        [](const WorkerView& a, const WorkerView& b) { return a.slowness < b.slowness; });
    if (slowest == workers.end() || workers.size() < 2 || slowest->slowness < kWorthTelling) {
      return "";
    }
    return absl::StrFormat("the slowest worker is %s, whose steps take %.1f times the median",
                           slowest->name, slowest->slowness);
  }

  WorkerReport Report(const WorkerView& worker) const {
    WorkerReport report;
    report.set_name(worker.name);
    report.set_trouble(TroubleOf(worker));
    SetMember(Member(worker.worker), report);
    report.set_steps_done(worker.steps_done);
    report.set_share(worker.share);
    if (worker.step_time > absl::ZeroDuration()) {
      *report.mutable_step_time() = ToProto(worker.step_time);
    }
    report.set_slowness(worker.slowness);
    return report;
  }

  // What is known of a worker beside its steps. Null: it is gone.
  void SetMember(const MemberFacts* member, WorkerReport& report) const {
    if (member == nullptr) return;
    std::vector<std::string> activities;
    for (const Activity& activity : member->activities) activities.push_back(Describe(activity));
    report.set_activity(absl::StrJoin(activities, ", "));
    report.set_device(member->device);
    if (member->device_use.has_value()) *report.mutable_device_use() = *member->device_use;
  }

  // Workers of a job that hands out no steps, and those that are gone.
  void AddMembersOutsideTheJob(JobExplanation& told) const {
    for (const auto& [id, member] : facts_.members) {
      if (!member.is_worker || facts_.dispatch.started) continue;
      WorkerReport& report = *told.add_workers();
      report.set_name(member.name);
      SetMember(&member, report);
    }
    for (const DepartureFacts& departure : facts_.departures) {
      if (!departure.is_worker || departure.in_good_order) continue;
      WorkerReport& report = *told.add_workers();
      report.set_name(departure.name);
      report.set_trouble(
          absl::StrCat("is gone", For(departure.since), " (", departure.reason, ")"));
    }
  }

  ShardReport Report(const ShardFacts& shard) const {
    ShardReport report;
    report.set_shard(shard.shard);
    report.set_server(shard.server);
    report.set_trouble(TroubleOf(shard));
    report.set_version(shard.version);
    uint64_t newest = 0;
    for (const ShardFacts& other : facts_.shards) {
      newest = std::max(newest, replicas_ > 0 ? other.version : other.steps);
    }
    if (shard.is_known) report.set_behind(newest - (replicas_ > 0 ? shard.version : shard.steps));
    for (const uint64_t step : shard.missing) {
      if (report.missing_size() < kMostMissing) report.add_missing(step);
    }
    return report;
  }

  std::string TroubleOf(const ShardFacts& shard) const {
    for (const DepartureFacts& departure : facts_.departures) {
      if (!departure.is_worker && departure.name == shard.server) {
        return absl::StrCat("is gone", For(departure.since), " (", departure.reason, ")");
      }
    }
    const absl::Duration silent = std::max(shard.silent, SilenceOf(shard.server));
    if (silent > absl::ZeroDuration()) {
      return absl::StrCat("does not answer", For(silent),
                          shard.error.empty() ? "" : absl::StrCat(" (", shard.error, ")"));
    }
    return shard.trouble;
  }

  const ExplainFacts& facts_;
  const uint32_t replicas_;
  std::vector<Finding> waits_;
};

}  // namespace

std::string DescribeDuration(absl::Duration duration) {
  if (duration < absl::Seconds(1)) {
    return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
  }
  if (duration < absl::Minutes(2)) return absl::StrCat(absl::ToInt64Seconds(duration), " s");
  if (duration < absl::Hours(2)) return absl::StrCat(absl::ToInt64Minutes(duration), " min");
  return absl::StrCat(absl::ToInt64Hours(duration), " h");
}

JobExplanation Explain(const ExplainFacts& facts) { return Explainer(facts).Explain(); }

}  // namespace millrace::coordinator
