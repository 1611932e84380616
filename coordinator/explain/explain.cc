#include "coordinator/explain/explain.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/job_spec.h"
#include "common/job_state.h"
#include "common/proto_duration.h"
#include "coordinator/explain/waits.h"
#include "coordinator/explain/wording.h"

namespace millrace::coordinator {
namespace {

constexpr size_t kMostWaits = 20;
constexpr int kMostMissing = 64;
constexpr double kWorthTelling = 1.5;
// A member that left in disorder is told of for this long by a job that gets on without it.
constexpr absl::Duration kDepartureIsNews = absl::Minutes(5);

class Explainer {
 public:
  explicit Explainer(const ExplainFacts& facts)
      : facts_(facts),
        replicas_(Replicas(facts.status.spec())),
        wording_(facts),
        waits_(FindWaits(facts)) {}

  JobExplanation Explain() const {
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
      const std::string trouble = wording_.TroubleOf(worker);
      const bool is_trouble = !trouble.empty() && worker.has_answered && worker.other_leases == 0;
      if (is_trouble) troubles.push_back(absl::StrCat(worker.name, " ", trouble));
    }
    if (!troubles.empty()) return absl::StrJoin(troubles, "; ");
    for (const DepartureFacts& departure : facts_.departures) {
      if (departure.in_good_order || departure.since > kDepartureIsNews) continue;
      return wording_.Describe(departure);
    }
    // Others may have done its step since.
    for (const WorkerView& worker : facts_.dispatch.workers) {
      const std::string call = wording_.LongCallOf(worker);
      if (!call.empty()) return absl::StrCat(worker.name, " ", call);
    }
    for (const WorkerView& worker : facts_.dispatch.workers) {
      if (!worker.has_answered) return absl::StrCat(worker.name, " ", wording_.TroubleOf(worker));
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
    report.set_trouble(wording_.TroubleOf(worker));
    SetMember(wording_.Member(worker.worker), report);
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
    for (const Activity& activity : member->activities)
      activities.push_back(wording_.Describe(activity));
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
    report.set_trouble(wording_.TroubleOf(shard));
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

  const ExplainFacts& facts_;
  const uint32_t replicas_;
  const Wording wording_;
  const std::vector<Finding> waits_;
};

}  // namespace

JobExplanation Explain(const ExplainFacts& facts) { return Explainer(facts).Explain(); }

}  // namespace millrace::coordinator
