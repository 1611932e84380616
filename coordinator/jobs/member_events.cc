#include "coordinator/jobs/member_events.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/jobs/retention.h"
#include "coordinator/run/job_runner.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// Calls `then` once it was told of as many ends as there are to come. Thread-safe.
class Countdown {
 public:
  Countdown(size_t ends, std::function<void()> then) : left_(ends), then_(std::move(then)) {}

  void OneHasEnded() {
    if (--left_ == 0) then_();
  }

 private:
  std::atomic<size_t> left_;
  const std::function<void()> then_;
};

}  // namespace

void MemberEvents::OnPsJoined(const RegisterPs& ps) {
  std::set<std::string> unknown;
  std::vector<StrayShard> strays;
  for (const ShardStatus& shard : ps.shards()) {
    const auto job = table_->Find(shard.job_id());
    if (!job.ok()) {
      unknown.insert(PrintableName(shard.job_id()));
    } else if (shard.shard() < kMaxShards &&
               !(*job)->HasShardOn(ps.directory_id(), shard.shard())) {
      strays.push_back({shard.job_id(), shard.shard(), ps.directory_id()});
    }
  }
  table_->retention().DropStrays(strays);
  LOG_IF(WARNING, !unknown.empty())
      << ps.name() << " holds shards of jobs that are not in this coordinator's journal, "
      << Printable(absl::StrJoin(unknown, ", "))
      << ": they stay there, unused; serve them with the journal "
      << "that they belong to, or start the server on an empty --data_dir";
}

void MemberEvents::OnMembersChanged() {
  {
    MutexLock lock(&members_mutex_);
    std::vector<WorkerCapacity> workers;
    for (const WorkerMember& worker : environment_.registry->Workers()) {
      workers.push_back({worker.id, worker.registration.lease_slots(), worker.registration.name()});
    }
    environment_.dispatcher->SetWorkers(workers);
  }
  environment_.planner->OnMembersChanged();
  for (const auto& runner : table_->Runners()) runner->OnMembersChanged();
  table_->retention().Wake();
}

void MemberEvents::OnWorkerMessage(const WorkerMember& worker, const MemberMessage& message) {
  switch (message.kind_case()) {
    case MemberMessage::kPlanResult:
      environment_.planner->OnPlanResult(worker, message.plan_result());
      break;
    case MemberMessage::kStepResult:
      if (auto runner = table_->RunnerOf(message.step_result().job_id())) {
        runner->OnStepResult(worker, message.step_result());
      }
      break;
    case MemberMessage::kLeaseReturned:
      if (auto runner = table_->RunnerOf(message.lease_returned().job_id())) {
        runner->OnLeaseReturned(worker, message.lease_returned());
      }
      break;
    case MemberMessage::kEvaluationResult:
      if (auto runner = table_->RunnerOf(message.evaluation_result().job_id())) {
        runner->OnEvaluationResult(worker, message.evaluation_result());
      }
      break;
    case MemberMessage::kJobPrepared:
      if (auto runner = table_->RunnerOf(message.job_prepared().job_id())) {
        runner->OnJobPrepared(worker, message.job_prepared());
      }
      break;
    case MemberMessage::kLeaving:
      environment_.planner->OnLeaving(worker);
      break;
    case MemberMessage::kDraining:
      environment_.dispatcher->SetDraining(worker.id);
      break;
    default:
      break;
  }
}

void MemberEvents::OnPsDraining(const PsMember& ps) {
  auto jobs = table_->WithCheckpoints();
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                            [&](const auto& each) {
                              return each.job->ElementsOn(ps.registration.directory_id()) == 0;
                            }),
             jobs.end());
  const auto countdown =
      std::make_shared<Countdown>(jobs.size() + 1, [registry = environment_.registry, id = ps.id] {
        CoordinatorMessage message;
        message.mutable_may_leave();
        registry->Send(id, message);
      });
  for (const auto& [job, runner] : jobs) {
    runner->RequestCheckpoint({.cause = absl::StrCat(ps.registration.name(), " stops"),
                               .urgent = true,
                               .done = [countdown](const auto&) { countdown->OneHasEnded(); }});
  }
  countdown->OneHasEnded();
}

}  // namespace millrace::coordinator
