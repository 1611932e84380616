// What keeps a job waiting is looked for from the outside in: whether it has begun at all, what its
// runner waits for, servers that do not answer, workers that have steps for too long, and nobody to
// take steps. The first that is found is the verdict. A worker that waits for a server that does
// not answer is no culprit, and neither is one that waits for a version: the step that the version
// lacks is lower, and its owner is named.
#include "coordinator/explain/waits.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_state.h"
#include "common/proto_duration.h"
#include "coordinator/explain/wording.h"

namespace millrace::coordinator {
namespace {

class WaitFinder {
 public:
  explicit WaitFinder(const ExplainFacts& facts) : facts_(facts), wording_(facts) {}

  std::vector<Finding> Find() {
    if (HasEnded(facts_.status.state())) return {};
    FindWaitsOfRunner();
    if (facts_.wait && facts_.wait->is_turn) return std::move(waits_);
    FindSilentServers();
    FindLateSteps();
    FindEvaluations();
    FindIdleness();
    const bool unexplained = waits_.empty() && facts_.wait;
    if (unexplained) AddRunnersWait(*facts_.wait);
    return std::move(waits_);
  }

 private:
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
        absl::StrAppend(&sentence, "; ", wording_.Describe(*last));
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

  void FindSilentServers() {
    for (const ShardFacts& shard : facts_.shards) {
      const absl::Duration silent = std::max(shard.silent, wording_.SilenceOf(shard.server));
      if (silent <= absl::ZeroDuration()) continue;
      std::string sentence = absl::StrCat(shard.server, ", which has shard ", shard.shard,
                                          ", does not answer", For(silent));
      if (!shard.error.empty()) absl::StrAppend(&sentence, " (", shard.error, ")");
      waits_.push_back({shard.server, absl::StrCat("to answer for shard ", shard.shard), silent,
                        std::move(sentence)});
    }
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

  Finding Explain(const WorkerView& worker, const LeaseView& lease) const {
    Finding finding;
    finding.whom = worker.name;
    finding.since = lease.out;
    std::string does = absl::StrCat("has had ", wording_.DescribeStep(lease.step), For(lease.out));
    finding.what = absl::StrCat("to compute ", wording_.DescribeStep(lease.step));
    const MemberFacts* member = wording_.Member(worker.worker);
    if (member != nullptr && member->silent > absl::ZeroDuration()) {
      absl::StrAppend(&does, "; nothing was heard of it", For(member->silent));
    }
    if (const Activity* activity = wording_.ActivityFor(member, lease.step, worker)) {
      absl::StrAppend(&does, "; it ", wording_.Describe(*activity));
      if (activity->kind() == Activity::PUSHING || activity->kind() == Activity::PULLING) {
        finding.what =
            absl::StrCat(activity->kind() == Activity::PUSHING ? "to push " : "to pull for ",
                         wording_.DescribeStep(lease.step), wording_.PlaceOf(*activity));
        absl::StrAppend(&does, wording_.ServerRemark(*activity));
      }
    }
    finding.sentence = absl::StrCat(worker.name, " ", does);
    return finding;
  }

  // At a barrier nothing goes before the state is evaluated.
  void FindEvaluations() {
    if (!facts_.dispatch.at_barrier) return;
    for (const WorkerView& worker : facts_.dispatch.workers) {
      if (!worker.evaluates) continue;
      std::string sentence =
          absl::StrCat(worker.name, " has been evaluating the model", For(*worker.evaluates),
                       ", and the next step waits for it");
      const MemberFacts* member = wording_.Member(worker.worker);
      if (member != nullptr && member->silent > absl::ZeroDuration()) {
        absl::StrAppend(&sentence, "; nothing was heard of it", For(member->silent));
      }
      // It may be at a step still, before it evaluates.
      const std::string call = wording_.LongCallOf(worker);
      if (!call.empty()) absl::StrAppend(&sentence, "; it ", call);
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
      const std::string trouble = wording_.TroubleOf(worker);
      if (trouble.empty()) continue;
      waits_.push_back({worker.name, "to take steps", absl::ZeroDuration(),
                        absl::StrCat(worker.name, " ", trouble)});
    }
  }

  const ExplainFacts& facts_;
  const Wording wording_;
  std::vector<Finding> waits_;
};

}  // namespace

std::vector<Finding> FindWaits(const ExplainFacts& facts) { return WaitFinder(facts).Find(); }

}  // namespace millrace::coordinator
