// A real coordinator on loopback with fake ps servers and workers: jobs from submission to
// their end.
#include <atomic>
#include <cmath>

#include "absl/strings/match.h"
#include "common/clock.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

TEST(TrainingTest, JobIsTrainedEvaluatedAndFlushed) {
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

  cluster.ExpectAllApplied(*job, 50);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.ps(i).flushes(), 1);
    for (const char* name : {"evaluation-1", "evaluation-2", "evaluation-3"}) {
      EXPECT_FALSE(cluster.ps(i).PinnedSteps(*job, i, name));
    }
    cluster.worker(i).AwaitForgotten(*job);
  }
  const JobStatus status = cluster.Get(*job).value();
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.total_steps(), 50u);
  EXPECT_GT(status.ended().seconds(), 0);
  EXPECT_EQ(status.spec().name(), "plain");
}

TEST(TrainingTest, ShardsAreMadeFromTheSpecAndThePlan) {
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

TEST(TrainingTest, OptimizerThatTakesNormsHasEachVariableInOneShard) {
  FakeCluster cluster(4);
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = PlainJob(3);
  spec.mutable_optimizer()->set_clip_norm(1);
  for (const uint32_t shards : {0, 2}) {
    spec.mutable_placement()->set_shards(shards);
    const std::string job = cluster.Submit(spec).value();
    EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
    const auto variables = cluster.Variables(job);
    ASSERT_TRUE(variables.ok()) << variables.status();
    EXPECT_THAT(variables->routing().shards(), SizeIs(shards == 0 ? 3 : 2)) << "4 servers";
    for (const ShardRoute& route : variables->routing().shards()) {
      for (const Slice& slice : route.slices()) {
        EXPECT_EQ(slice.length(), variables->variables(slice.variable()).shape(0));
      }
    }
  }
}

TEST(TrainingTest, ShardsKnowHowAStepChangesEachVariable) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.plan = [](const JobSpec&) {
    JobPlan plan = PlainPlan();
    plan.mutable_variables(0)->mutable_update()->mutable_frozen();
    plan.mutable_variables(2)->mutable_update()->mutable_moving_average()->set_momentum(0.9);
    return plan;
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(3)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const ShardSpec shard = cluster.ps(0).SpecOf(job, 0).value();
  ASSERT_THAT(shard.slices(), SizeIs(3));
  EXPECT_TRUE(shard.slices(0).update().has_frozen());
  EXPECT_FALSE(shard.slices(1).has_update());
  EXPECT_EQ(shard.slices(2).update().moving_average().momentum(), 0.9);
  EXPECT_TRUE(cluster.Variables(job)->variables(0).update().has_frozen());
}

TEST(TrainingTest, EvaluationSeesExactlyTheStepsBeforeIt) {
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

TEST(TrainingTest, SynchronousVersionsAreEvaluatedWhole) {
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
  cluster.ExpectAllApplied(job, 20);
  EXPECT_EQ(cluster.ps(0).Shards(job)[0].version(), 7u);
}

TEST(TrainingTest, WorkersNeverSeeMoreThanTheStalenessBound) {
  constexpr uint32_t kBound = 3;
  std::atomic<int> violations{0};
  FakeCluster cluster(2);
  cluster.StartPs();
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

TEST(TrainingTest, LossThatIsNotFiniteFailsTheJobAndNamesTheStep) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.loss = [](uint64_t step) { return step == 7 ? std::nan("") : 1.0; };
  cluster.AddWorker(script);
  const JobStatus status = cluster.AwaitEnd(cluster.Submit(PlainJob(500)).value());
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("step 7:"), HasSubstr("nan")));
}

TEST(TrainingTest, ErrorOfAStepFailsTheJobWithTheWorkersMessage) {
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

TEST(TrainingTest, PassingTroubleIsTriedAgainAndPeopleAreTold) {
  std::atomic<int> failures{8};
  FakeCluster cluster(1);
  cluster.StartPs();
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
  cluster.ExpectAllApplied(job, 20);
}

TEST(TrainingTest, SeveralJobsRunAtATimeAndShareTheWorkers) {
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
    cluster.ExpectAllApplied(other, 100);
  }
  EXPECT_EQ(cluster.Get(endless)->state(), RUNNING);
  EXPECT_EQ(cluster.Cancel(endless)->state(), CANCELLED);
}

TEST(TrainingTest, FailingJobDisturbsNoOther) {
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
  cluster.ExpectAllApplied(good, 1000);
}

// A running job that did not get on once said nothing at all.
TEST(TrainingTest, JobThatDoesNotGetOnSaysForWhomItWaits) {
  SimulatedClock clock(absl::UnixEpoch() + absl::Hours(1));
  CoordinatorOptions options;
  options.clock = &clock;
  Gate gate;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t) {
    gate.Pass();
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  clock.Advance(absl::Seconds(11));
  cluster.AwaitNotice(job, "waits for worker-0, which has step 0, for 11 s");
  EXPECT_THAT(cluster.Get(job)->message(), HasSubstr("waits for worker-0"));
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.Get(job)->message(), IsEmpty());
}

}  // namespace
}  // namespace millrace::coordinator
