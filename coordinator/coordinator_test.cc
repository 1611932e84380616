// A real coordinator on loopback with fake ps servers and workers: jobs from submission to their
// end.
#include "coordinator/coordinator.h"

#include <atomic>
#include <cmath>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/testing/fake_cluster.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Evaluated at `every` steps, and at the end.
JobSpec EvaluatedJob(uint64_t steps, uint64_t every) {
  JobSpec spec = PlainJob(steps);
  *spec.mutable_data()->mutable_evaluate() = spec.data().train();
  spec.mutable_evaluation()->set_every_steps(every);
  return spec;
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

void ExpectAllApplied(FakeCluster& cluster, int ps, const std::string& job_id, uint64_t steps) {
  for (int i = 0; i < ps; ++i) {
    for (const ShardStatus& shard : cluster.ps(i).Shards(job_id)) {
      EXPECT_EQ(shard.applied().watermark(), steps) << "ps-" << i << " shard " << shard.shard();
    }
  }
}

TEST(CoordinatorTest, JobIsTrainedEvaluatedAndFlushed) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker();
  cluster.AddWorker();
  const auto job = cluster.Submit(EvaluatedJob(50, 20));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(*job, MatchesRegex("plain-1-[a-z2-9]{4}"));
  const auto events = cluster.Watch(*job);
  ASSERT_TRUE(events.ok()) << events.status();

  std::vector<std::string> states;
  std::vector<uint64_t> evaluated;
  for (size_t i = 0; i < events->size(); ++i) {
    const JobEvent& event = (*events)[i];
    EXPECT_EQ(event.sequence(), i + 1);
    EXPECT_GT(event.time().seconds(), 0);
    if (event.has_state_changed()) states.push_back(event.state_changed().state());
    if (event.has_evaluated()) evaluated.push_back(event.evaluated().step());
  }
  EXPECT_THAT(states, ElementsAre("PENDING", "RUNNING", "SUCCEEDED"));
  EXPECT_THAT(evaluated, ElementsAre(20, 40, 50));
  const StateChanged& last = events->back().state_changed();
  EXPECT_EQ(last.step(), 50u);
  EXPECT_EQ(last.metrics().at("eval_loss"), 0.25);
  EXPECT_EQ(last.metrics().at("eval_auc"), 0.75);
  EXPECT_EQ(last.metrics().at("accuracy"), 1);

  ExpectAllApplied(cluster, 2, *job, 50);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.ps(i).flushes(), 1);
    EXPECT_FALSE(cluster.ps(i).PinnedSteps(*job, i, "evaluation"));
    cluster.worker(i).AwaitForgotten(*job);
  }
  const JobStatus status = cluster.Get(*job).value();
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.total_steps(), 50u);
  EXPECT_GT(status.ended().seconds(), 0);
  EXPECT_EQ(status.spec().name(), "plain");
}

TEST(CoordinatorTest, ShardsAreMadeFromTheSpecAndThePlan) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = PlainJob(3);
  spec.set_seed(17);
  spec.mutable_placement()->set_shards(3);
  const std::string job = cluster.Submit(spec).value();
  cluster.AwaitEnd(job);
  const auto variables = cluster.Variables(job);
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_THAT(variables->variables(), SizeIs(3));
  ASSERT_THAT(variables->routing().shards(), SizeIs(3));
  uint64_t elements = 0;
  for (const ShardRoute& route : variables->routing().shards()) {
    FakePs& ps = cluster.ps(route.server() == "ps-0" ? 0 : 1);
    EXPECT_EQ(route.address(), ps.address());
    const auto shard = ps.SpecOf(job, route.shard());
    ASSERT_TRUE(shard);
    EXPECT_EQ(shard->seed(), 17u);
    EXPECT_EQ(shard->total_steps(), 3u);
    EXPECT_EQ(shard->replicas(), 0u);
    for (const ShardSlice& slice : shard->slices()) elements += slice.slice().length();
  }
  EXPECT_EQ(elements, 47u);
}

TEST(CoordinatorTest, EvaluationSeesExactlyTheStepsBeforeIt) {
  FakeCluster cluster(2);
  cluster.StartPs();
  std::vector<uint64_t> pinned;
  FakeWorkerScript script;
  script.lease_slots = 8;
  std::string job;
  script.on_evaluate = [&](const Evaluate& evaluate) {
    for (int i = 0; i < 2; ++i) {
      const auto steps = cluster.ps(i).PinnedSteps(evaluate.job_id(), i, evaluate.cut_id());
      pinned.push_back(steps.value_or(0));
    }
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  job = cluster.Submit(EvaluatedJob(30, 10)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.worker(0).Kill();  // It writes no more.
  EXPECT_THAT(pinned, ElementsAre(10, 10, 20, 20, 30, 30));
}

TEST(CoordinatorTest, SynchronousVersionsAreEvaluatedWhole) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker();
  cluster.AddWorker();
  JobSpec spec = EvaluatedJob(20, 4);
  spec.mutable_synchronous()->set_replicas(3);
  const std::string job = cluster.Submit(spec).value();
  const auto events = cluster.Watch(job);
  ASSERT_TRUE(events.ok());
  std::vector<uint64_t> evaluated;
  for (const JobEvent& event : *events) {
    if (event.has_evaluated()) evaluated.push_back(event.evaluated().step());
  }
  EXPECT_THAT(evaluated, ElementsAre(6, 12, 18, 20));
  EXPECT_EQ(events->back().state_changed().state(), "SUCCEEDED");
  ExpectAllApplied(cluster, 2, job, 20);
  EXPECT_EQ(cluster.ps(0).Shards(job)[0].version(), 7u);
}

TEST(CoordinatorTest, WrongSpecsAndPlansAreRefused) {
  FakeCluster cluster(1);
  FakeWorkerScript script;
  script.plan = [](const JobSpec& spec) -> absl::StatusOr<JobPlan> {
    if (spec.seed() == 1) return absl::InvalidArgumentError("model.layers[0] 'dense': no");
    return PlainPlan();
  };
  cluster.AddWorker(script);
  JobSpec wrong = PlainJob(1);
  wrong.set_batch_size(0);
  const auto spec_error = cluster.Submit(wrong);
  EXPECT_EQ(spec_error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(spec_error.status()), HasSubstr("batch_size"));

  JobSpec unplannable = PlainJob(1);
  unplannable.set_seed(1);
  const auto plan_error = cluster.Submit(unplannable);
  EXPECT_EQ(plan_error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(plan_error.status()), HasSubstr("model.layers[0] 'dense': no"));

  JobSpec divided = PlainJob(1);
  divided.mutable_placement()->set_shards(48);
  const auto shards_error = cluster.Submit(divided);
  EXPECT_EQ(shards_error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(shards_error.status()), AllOf(HasSubstr("48"), HasSubstr("47")));
  EXPECT_THAT(cluster.List(), IsEmpty());
}

TEST(CoordinatorTest, JobWaitsForMembersAndSaysForWhom) {
  FakeCluster cluster(2);
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AwaitNotice(job, "a worker (none is connected)");
  JobStatus status = cluster.Get(job).value();
  EXPECT_EQ(status.state(), PENDING);
  EXPECT_THAT(status.message(), HasSubstr("waits for a worker"));
  EXPECT_EQ(cluster.Variables(job).status().code(), absl::StatusCode::kFailedPrecondition);
  cluster.AddWorker();
  cluster.ps(0).Start(cluster.address());
  cluster.AwaitNotice(job, "2 ps servers (1 is connected)");
  cluster.ps(1).Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST(CoordinatorTest, UnplannableJobThatWasTakenWithoutWorkersFails) {
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(PlainJob(5)).value();
  FakeWorkerScript script;
  script.plan = [](const JobSpec&) { return absl::InvalidArgumentError("data.train: absent"); };
  cluster.AddWorker(script);
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), HasSubstr("data.train: absent"));
}

TEST(CoordinatorTest, WorkersNeverSeeMoreThanTheStalenessBound) {
  constexpr uint32_t kBound = 3;
  FakeCluster cluster(2);
  cluster.StartPs();
  std::atomic<int> violations{0};
  FakeWorkerScript script;
  script.lease_slots = 4;
  script.on_lease = [&](const Lease& lease, const SetRoute& route) {
    for (int i = 0; i < 2; ++i) {
      for (const ShardStatus& shard : cluster.ps(i).Shards(route.job_id())) {
        if (shard.applied().watermark() + kBound < lease.end() - 1) ++violations;
      }
    }
  };
  for (int i = 0; i < 3; ++i) cluster.AddWorker(script);
  JobSpec spec = PlainJob(300);
  spec.mutable_asynchronous()->set_staleness_bound(kBound);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(violations, 0);
  std::vector<uint64_t> computed;
  for (int i = 0; i < 3; ++i) {
    for (uint64_t step : cluster.worker(i).Computed(job)) computed.push_back(step);
  }
  EXPECT_EQ(computed.size(), 300u) << "without failures each step is computed once";
}

// Blocks the workers that come to `Pass`, until it is opened.
class Gate {
 public:
  void Pass() {
    MutexLock lock(&mutex_);
    ++waiting_;
    changed_.SignalAll();
    while (!open_) changed_.Wait(&mutex_);
  }
  void AwaitSomebody() {
    MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(CoordinatorTest, LeasesOfADeadWorkerGoToOthers) {
  FakeCluster cluster(1);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript stuck;
  stuck.on_step = [&](const std::string&, uint64_t step) {
    if (step >= 3) gate.Pass();
    return absl::OkStatus();
  };
  FakeWorker& first = cluster.AddWorker(stuck);
  const std::string job = cluster.Submit(PlainJob(40)).value();
  gate.AwaitSomebody();
  std::thread opener([&] {
    // The worker's thread must end, but only after its stream has.
    cluster.AddWorker();
    gate.Open();
  });
  first.Kill();
  opener.join();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  ExpectAllApplied(cluster, 1, job, 40);
}

TEST(CoordinatorTest, WorkerThatLeavesInGoodOrderLosesNothing) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& first = cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(2000)).value();
  cluster.AwaitRunning(job);
  first.Leave();
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  ExpectAllApplied(cluster, 1, job, 2000);
}

TEST(CoordinatorTest, ReturnOfAPsServerRunsOnlyTheMissingSteps) {
  FakeCluster cluster(2);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 10) cluster.ps(1).FlushAll();
    if (step == 30) gate.Pass();
    return absl::OkStatus();
  };
  FakeWorker& worker = cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(50)).value();
  gate.AwaitSomebody();
  cluster.ps(1).Kill();
  gate.Open();
  cluster.AwaitNotice(job, "ps-1 (127.0.0.1:");
  EXPECT_THAT(cluster.Get(job)->message(), AllOf(HasSubstr("waits for ps-1"), HasSubstr("gone")));
  const std::vector<uint64_t> before = cluster.ps(0).AppliedInThisLife();
  cluster.ps(1).Start(cluster.address());

  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  ExpectAllApplied(cluster, 2, job, 50);
  EXPECT_THAT(cluster.ps(1).AppliedInThisLife(), SizeIs(40)) << "ten steps had been flushed";
  EXPECT_THAT(cluster.ps(0).AppliedInThisLife(), SizeIs(50)) << "nothing is applied twice";
  EXPECT_GE(before.size(), 30u);
  EXPECT_THAT(worker.Generations(job), ElementsAre(1, 2));
  EXPECT_EQ(cluster.Get(job)->generation(), 2u);
  EXPECT_THAT(cluster.Get(job)->message(), IsEmpty());
}

TEST(CoordinatorTest, LossOfAPsServerAtTheVeryEndIsMadeUpForBeforeTheJobSucceeds) {
  FakeCluster cluster(2);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript script;
  script.on_evaluate = [&](const Evaluate&) {
    gate.Pass();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(EvaluatedJob(20, 0)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  cluster.ps(0).Start(cluster.address());
  cluster.AwaitNotice(job, "the evaluation at step 20 was given up");
  gate.Open();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.metrics().count("eval_loss"), 1u);
  ExpectAllApplied(cluster, 2, job, 20);
}

TEST(CoordinatorTest, SynchronousJobGoesOnWhenAPsServerReturnsWithItsNewestVersion) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_flush_always(true);
  Gate gate;
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 31) gate.Pass();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  JobSpec spec = PlainJob(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  cluster.ps(1).Kill();
  gate.Open();
  cluster.AwaitNotice(job, "ps-1");
  cluster.ps(1).Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  ExpectAllApplied(cluster, 2, job, 60);
}

TEST(CoordinatorTest, SynchronousJobFailsWhenAShardFellFarBehind) {
  FakeCluster cluster(2);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 30) gate.Pass();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  JobSpec spec = PlainJob(60);
  spec.mutable_synchronous()->set_replicas(2);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  cluster.ps(1).Kill();
  gate.Open();
  cluster.ps(1).Start(cluster.address());
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), HasSubstr("came back with version 0"));
}

TEST(CoordinatorTest, JobFailsWhenAPsServerLostItsShard) {
  FakeCluster cluster(1);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 5) gate.Pass();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  cluster.ps(0).Wipe();
  gate.Open();
  cluster.ps(0).Start(cluster.address());
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ps-0"), HasSubstr("shard 0")));
}

TEST(CoordinatorTest, RunningJobFailsWhenAMemberStaysAway) {
  CoordinatorOptions options;
  options.member_timeout = absl::Milliseconds(50);
  FakeCluster cluster(1, options);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 5) gate.Pass();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  gate.Open();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ps-0"), HasSubstr("waited 50ms")));
}

TEST(CoordinatorTest, LossThatIsNotFiniteFailsTheJobAndNamesTheStep) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.loss = [](uint64_t step) { return step == 7 ? std::nan("") : 1.0; };
  cluster.AddWorker(script);
  const JobStatus status = cluster.AwaitEnd(cluster.Submit(PlainJob(500)).value());
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("step 7:"), HasSubstr("nan")));
}

TEST(CoordinatorTest, ErrorOfAStepFailsTheJobWithTheWorkersMessage) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.on_step = [](const std::string&, uint64_t step) {
    return step == 3 ? absl::InternalError("the device is on fire") : absl::OkStatus();
  };
  cluster.AddWorker(script);
  const JobStatus status = cluster.AwaitEnd(cluster.Submit(PlainJob(500)).value());
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("step 3"), HasSubstr("on fire"), HasSubstr("worker-0")));
}

TEST(CoordinatorTest, PassingTroubleIsTriedAgainAndPeopleAreTold) {
  FakeCluster cluster(1);
  cluster.StartPs();
  std::atomic<int> failures{8};
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    if (step == 3 && failures-- > 0) return absl::UnavailableError("the network is slow");
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  JobSpec spec = PlainJob(20);
  spec.mutable_asynchronous()->set_staleness_bound(0);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.AwaitNotice(job, "8 in a row; step 3: the network is slow (on worker-0)");
  ExpectAllApplied(cluster, 1, job, 20);
}

TEST(CoordinatorTest, EvaluationIsGivenToAnotherWorkerWhenItsWorkerDies) {
  FakeCluster cluster(1);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript stuck;
  stuck.on_evaluate = [&](const Evaluate&) {
    gate.Pass();
    return absl::UnavailableError("dying");
  };
  FakeWorker& first = cluster.AddWorker(stuck);
  const std::string job = cluster.Submit(EvaluatedJob(5, 0)).value();
  gate.AwaitSomebody();
  cluster.AddWorker();
  std::thread opener([&] { gate.Open(); });
  first.Kill();
  opener.join();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.metrics().at("eval_loss"), 0.25);
}

TEST(CoordinatorTest, CancelledJobEndsAndStaysReadable) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(1'000'000'000)).value();
  cluster.AwaitRunning(job);
  const auto cancelled = cluster.Cancel(job);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), CANCELLED);
  EXPECT_EQ(cluster.Watch(job)->back().state_changed().state(), "CANCELLED");
  worker.AwaitForgotten(job);
  EXPECT_TRUE(cluster.Variables(job).ok());
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);

  const std::string pending = cluster.Submit(PlainJob(1)).value();
  cluster.AwaitEnd(pending);
  EXPECT_EQ(cluster.Cancel(pending)->state(), SUCCEEDED) << "a job that has ended stays as it is";
}

TEST(CoordinatorTest, PendingJobCanBeCancelled) {
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(PlainJob(1)).value();
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

TEST(CoordinatorTest, WatchResumesAfterASequenceNumber) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(EvaluatedJob(40, 10)).value();
  const auto all = cluster.Watch(job);
  ASSERT_TRUE(all.ok());
  ASSERT_GT(all->size(), 3u);
  const auto rest = cluster.Watch(job, 2);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->size(), all->size() - 2);
  EXPECT_EQ(rest->front().sequence(), 3u);
  EXPECT_THAT(*cluster.Watch(job, all->size()), IsEmpty());
  EXPECT_EQ(cluster.Watch(job, all->size() + 1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(CoordinatorTest, UnknownJobsAreNotFound) {
  FakeCluster cluster(1);
  EXPECT_EQ(cluster.Get("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Watch("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Cancel("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Variables("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(cluster.Get("a-job").status()), HasSubstr("a-job"));
}

TEST(CoordinatorTest, RepeatedSubmissionFindsTheFirstOnesJob) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  std::vector<std::string> jobs(4);
  std::vector<std::thread> clients;
  for (std::string& job : jobs) {
    clients.emplace_back([&] { job = cluster.Submit(PlainJob(2), "request-a").value(); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(jobs, testing::Each(jobs[0]));
  EXPECT_EQ(cluster.AwaitEnd(jobs[0]).state(), SUCCEEDED);
  EXPECT_NE(cluster.Submit(PlainJob(2), "request-b").value(), jobs[0]);
  EXPECT_EQ(cluster.Submit(PlainJob(2), "request-a").value(), jobs[0]);
}

TEST(CoordinatorTest, SeveralJobsRunAtATimeAndShareTheWorkers) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker();
  cluster.AddWorker();
  const std::string endless = cluster.Submit(PlainJob(1'000'000'000)).value();
  cluster.AwaitRunning(endless);
  JobSpec synchronous = PlainJob(100);
  synchronous.mutable_synchronous()->set_replicas(2);
  const std::string others[] = {cluster.Submit(synchronous).value(),
                                cluster.Submit(PlainJob(100)).value()};
  for (const std::string& other : others) {
    EXPECT_EQ(cluster.AwaitEnd(other).state(), SUCCEEDED);
    ExpectAllApplied(cluster, 2, other, 100);
  }
  EXPECT_EQ(cluster.Get(endless)->state(), RUNNING);
  EXPECT_EQ(cluster.Cancel(endless)->state(), CANCELLED);
}

TEST(CoordinatorTest, FailingJobDisturbsNoOther) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.on_step = [&](const std::string& job, uint64_t) {
    return absl::StartsWith(job, "plain-2-") ? absl::InternalError("no") : absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string good = cluster.Submit(PlainJob(1000)).value();
  const std::string bad = cluster.Submit(PlainJob(1000)).value();
  EXPECT_EQ(cluster.AwaitEnd(bad).state(), FAILED);
  EXPECT_EQ(cluster.AwaitEnd(good).state(), SUCCEEDED);
  ExpectAllApplied(cluster, 1, good, 1000);
}

TEST(CoordinatorTest, RestartedCoordinatorListsOldJobsAndGoesOnWithTheRunningOnes) {
  FakeCluster cluster(2);
  cluster.StartPs();
  Gate gate;
  FakeWorkerScript script;
  script.on_step = [&](const std::string& job, uint64_t step) {
    if (absl::StartsWith(job, "plain-2-") && step == 20) gate.Pass();
    return absl::OkStatus();
  };
  FakeWorker& worker = cluster.AddWorker(script);
  const std::string old_job = cluster.Submit(EvaluatedJob(10, 0), "old").value();
  const JobStatus before = cluster.AwaitEnd(old_job);
  const uint64_t old_events = cluster.Watch(old_job)->back().sequence();
  const std::string running = cluster.Submit(PlainJob(50), "running").value();
  gate.AwaitSomebody();
  const uint64_t events =
      cluster
          .Watch(running, 0,
                 [](const JobEvent& e) { return e.state_changed().state() == "RUNNING"; })
          ->back()
          .sequence();
  cluster.StopCoordinator();
  gate.Open();
  cluster.StartCoordinator();

  const JobStatus after = cluster.Get(old_job).value();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(after, before));
  EXPECT_EQ(cluster.Submit(PlainJob(50), "running").value(), running);
  EXPECT_THAT(cluster.List(), SizeIs(2));
  EXPECT_EQ(cluster.List()[0].job_id(), running);
  const auto last = cluster.Watch(old_job, old_events - 1);
  ASSERT_THAT(*last, SizeIs(1));
  EXPECT_EQ(last->front().state_changed().state(), "SUCCEEDED");
  EXPECT_EQ(last->front().sequence(), old_events);

  for (int i = 0; i < 2; ++i) cluster.ps(i).Join(cluster.address());
  worker.Join(cluster.address());
  const auto resumed = cluster.Watch(running, events);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->front().sequence(), events + 1);
  EXPECT_EQ(resumed->back().state_changed().state(), "SUCCEEDED");
  ExpectAllApplied(cluster, 2, running, 50);
  EXPECT_THAT(cluster.ps(0).AppliedInThisLife(), SizeIs(60)) << "nothing is applied twice";
  EXPECT_EQ(cluster.Get(running)->generation(), 2u);
  EXPECT_THAT(cluster.Submit(PlainJob(1)).value(), StartsWith("plain-3-"));
}

TEST(CoordinatorTest, ShardsOfOlderJobsAreDropped) {
  CoordinatorOptions options;
  options.retained_jobs = 1;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string first = cluster.Submit(PlainJob(2)).value();
  cluster.AwaitEnd(first);
  const std::string second = cluster.Submit(PlainJob(2)).value();
  cluster.AwaitEnd(second);
  cluster.StopCoordinator();  // Waits for the runners.
  EXPECT_THAT(cluster.ps(0).Shards(first), IsEmpty());
  EXPECT_THAT(cluster.ps(0).Shards(second), SizeIs(1));
  cluster.StartCoordinator();
  EXPECT_EQ(cluster.Variables(first).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster.Variables(second).status().code(), absl::StatusCode::kUnavailable);
  cluster.ps(0).Join(cluster.address());
  const auto variables = cluster.Variables(second);
  EXPECT_TRUE(variables.ok()) << variables.status();
}

TEST(CoordinatorTest, DirectoryOfARunningCoordinatorIsRefused) {
  CoordinatorOptions options;
  options.data_dir = absl::StrCat(testing::TempDir(), "/locked");
  const auto first = Coordinator::Start(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Coordinator::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(second.status()), HasSubstr(options.data_dir));
}

}  // namespace
}  // namespace millrace::coordinator
