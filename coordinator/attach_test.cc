// A real coordinator on loopback with fake ps servers and workers: from what state a job goes on,
// which state it ends with, and what people are told of it.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/net/channel.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JobSpec SynchronousJob(uint64_t steps, uint32_t replicas) {
  JobSpec spec = PlainJob(steps);
  spec.mutable_synchronous()->set_replicas(replicas);
  return spec;
}

std::vector<Recovered> RecoveriesOf(FakeCluster& cluster, const std::string& job) {
  std::vector<Recovered> recoveries;
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    if (event.has_recovered()) recoveries.push_back(event.recovered());
  }
  return recoveries;
}

// Runs `at` when a worker comes to a step, for the first time.
FakeWorkerScript OnceAt(uint64_t step, std::function<void()> at) {
  FakeWorkerScript script;
  auto done = std::make_shared<std::atomic<bool>>(false);
  script.lease_slots = 1;
  script.on_step = [=](const std::string&, uint64_t now) {
    if (now == step && !done->exchange(true)) at();
    return absl::OkStatus();
  };
  return script;
}

enum class PsServers { kDie, kStay };

// The coordinator and the worker, which stands at the gate, are killed and begin another life; so
// do ps servers that die.
void KillAndStartAgain(FakeCluster& cluster, PsServers servers, Gate& gate) {
  cluster.StopCoordinator();
  for (FakePs* ps : cluster.servers()) {
    if (servers == PsServers::kDie) ps->Kill();
  }
  gate.Open();
  cluster.worker(0).Kill();
  cluster.StartCoordinator();
  for (FakePs* ps : cluster.servers()) {
    if (servers == PsServers::kDie) ps->Serve();
    ps->Join(cluster.address());
  }
  cluster.worker(0).Join(cluster.address());
}

// A ps server was killed and started again on its port between the last report and its flush: it
// answered from an old cut, and the job succeeded without the steps.
TEST(AttachTest, ServerThatLostStepsBeforeItsLastFlushGetsThemAgain) {
  std::atomic<int> flushes{0};
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_on_flush([&] {
    if (flushes++ == 0) cluster.ps(1).Crash();
    return grpc::Status::OK;
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(20)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 20);
  EXPECT_EQ(cluster.Get(job)->steps_run_again(), 20u);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].steps_lost(), 20u);
  EXPECT_THAT(recoveries[0].how(), HasSubstr("shard 1 from its initial values"));
}

// Everything was killed at once, and "no step was lost": what was lost was compared with the
// journal's step, which is written now and then.
TEST(AttachTest, WhatWasLostWithTheCoordinatorIsCountedFromWhatWasTold) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorkerScript script = WaitingAt(30, &gate);
  const auto wait = script.on_step;
  script.lease_slots = 1;
  script.on_step = [&, wait](const std::string& job, uint64_t step) {
    for (int i = 0; i < 2 && step == 6; ++i) cluster.ps(i).FlushAll();
    return wait(job, step);
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(PlainJob(60)).value();
  const auto before =
      cluster.Watch(job, 0, [](const JobEvent& event) { return event.progress().step() > 10; });
  ASSERT_TRUE(before.ok()) << before.status();
  const uint64_t told = before->back().progress().step();
  KillAndStartAgain(cluster, PsServers::kDie, gate);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].step(), 6u);
  EXPECT_GE(recoveries[0].steps_lost(), told - 6);
  EXPECT_LE(recoveries[0].steps_lost(), 30u - 6);
  EXPECT_TRUE(recoveries[0].more_may_be_lost());
  EXPECT_EQ(cluster.Get(job)->steps_run_again(), recoveries[0].steps_lost());
  EXPECT_TRUE(cluster.Get(job)->more_may_have_run_again());
}

// A job that had told nothing of its progress yet.
TEST(AttachTest, WhereNothingIsKnownOfWhatWasLostThatIsTold) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(0, &gate));
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  KillAndStartAgain(cluster, PsServers::kDie, gate);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].steps_lost(), 0u);
  EXPECT_TRUE(recoveries[0].more_may_be_lost());
}

TEST(AttachTest, RestartedCoordinatorOfServersThatStayedKnowsThatNothingWasLost) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  KillAndStartAgain(cluster, PsServers::kStay, gate);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].steps_lost(), 0u);
  EXPECT_FALSE(recoveries[0].more_may_be_lost());
}

// It had opened the shards of a server that was killed, and told nothing yet. Its next life found
// them open, and "no step was lost".
TEST(AttachTest, CoordinatorThatDiesBeforeItTellsOfALossKnowsThatThereMayBeOne) {
  Gate gate;
  Gate opening;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(0, &gate));
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  cluster.ps(1).set_on_generation([&] {
    opening.Pass();
    return grpc::Status::OK;
  });
  cluster.ps(0).Kill();
  cluster.ps(0).Start(cluster.address());
  opening.AwaitSomebody();
  cluster.ps(0).AwaitOpen(job, 0);
  cluster.StopCoordinator();
  opening.Open();
  KillAndStartAgain(cluster, PsServers::kStay, gate);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].steps_lost(), 0u);
  EXPECT_TRUE(recoveries[0].more_may_be_lost());
}

TEST(AttachTest, LossThatWasToldIsNotToldAgain) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  cluster.ps(0).Start(cluster.address());
  const auto told =
      cluster.Watch(job, 0, [](const JobEvent& event) { return event.has_recovered(); });
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_THAT(told->back().recovered().how(), HasSubstr("shard 0 from its initial values"));
  KillAndStartAgain(cluster, PsServers::kStay, gate);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1)) << "of this life";
  EXPECT_EQ(recoveries[0].steps_lost(), 0u);
  EXPECT_FALSE(recoveries[0].more_may_be_lost());
}

// The metrics of a job were once those of a state that was lost after it was evaluated.
TEST(AttachTest, LastEvaluationIsOfTheStateThatIsOnDisk) {
  FakeCluster cluster(2);
  cluster.StartPs();
  std::vector<int> flushes;
  FakeWorkerScript script;
  script.on_evaluate = [&](const Evaluate& evaluate) {
    for (int i = 0; i < 2; ++i) {
      flushes.push_back(cluster.ps(i).flushes());
      EXPECT_EQ(cluster.ps(i).PinnedSteps(evaluate.job_id(), i, evaluate.cut_id()), 20u);
    }
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(EvaluatedJob(20, 0)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.worker(0).Kill();  // It writes no more.
  EXPECT_THAT(flushes, ElementsAre(1, 1));
}

// gRPC reports a transport that breaks as UNAVAILABLE, and sometimes as these: the job failed.
TEST(AttachTest, BrokenTransportIsTriedAgainWhateverGrpcCallsIt) {
  std::atomic<int> flushes{0};
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.ps(0).set_on_flush([&] {
    switch (flushes++) {
      case 0:
        return grpc::Status(grpc::StatusCode::UNKNOWN, "Stream removed");
      case 1:
        return grpc::Status(grpc::StatusCode::INTERNAL, "Received RST_STREAM");
      case 2:  // A proxy's.
        return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "Received http2 header: 403");
      case 3:  // Another server at its address.
        return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
      default:
        return grpc::Status::OK;
    }
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(20)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(flushes, 5);
}

// The cause that people were told was "CANCELLED", or ended with it.
TEST(AttachTest, CallThatWasGivenUpIsToldWithWhoAndWhat) {
  std::atomic<int> flushes{0};
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.ps(0).set_on_flush([&] {
    return flushes++ == 0 ? grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED")
                          : grpc::Status::OK;
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(20)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_THAT(recoveries[0].cause(),
              AllOf(HasSubstr("ps-0 ("),
                    HasSubstr("FlushCut of shard 0: the server has given up the call")));
}

// Both servers were killed and came back at different versions: pulls of the older one were refused
// for ever, or the job failed.
TEST(AttachTest, SynchronousShardsStepBackTogetherToTheNewestCommonCut) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  for (int i = 0; i < 2; ++i) cluster.ps(i).set_takes_planned_cuts(false);
  FakeWorkerScript script = WaitingAt(16, &gate);
  const auto wait = script.on_step;
  script.lease_slots = 1;
  script.on_step = [&, wait](const std::string& job, uint64_t step) {
    if (step == 8) {
      for (int i = 0; i < 2; ++i) cluster.ps(i).FlushAll();
    }
    if (step == 10) cluster.ps(0).FlushAll();
    return wait(job, step);
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(SynchronousJob(30, 2)).value();
  gate.AwaitSomebody();
  for (int i = 0; i < 2; ++i) cluster.ps(i).Kill();
  for (int i = 0; i < 2; ++i) cluster.ps(i).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 30);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_FALSE(recoveries.empty());
  EXPECT_EQ(recoveries.back().step(), 8u);
  EXPECT_THAT(recoveries.back().cause(), HasSubstr("ps-"));
  EXPECT_GE(cluster.Get(job)->steps_run_again(), 8u);
  for (int i = 0; i < 2; ++i) EXPECT_GE(cluster.ps(i).Shards(job)[0].epoch(), 1u);
}

TEST(AttachTest, SynchronousShardsWithoutACommonCutBeginAgain) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_takes_planned_cuts(false);
  cluster.AddWorker(WaitingAt(30, &gate));
  const std::string job = cluster.Submit(SynchronousJob(60, 2)).value();
  gate.AwaitSomebody();
  cluster.ps(1).Kill();
  gate.Open();
  cluster.ps(1).Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  const auto recoveries = RecoveriesOf(cluster, job);
  ASSERT_FALSE(recoveries.empty());
  EXPECT_EQ(recoveries.back().step(), 0u);
  EXPECT_THAT(recoveries.back().how(), HasSubstr("all shards stepped back to version 0"));
}

// The held set of a version whose last contribution was being computed was taken for an applied
// version, and the barrier was passed too early.
TEST(AttachTest, BarrierWaitsForAVersionThatIsBeingApplied) {
  std::atomic<int> pins{0};
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_slow_versions(true);
  cluster.ps(1).set_on_pin([&] {
    if (++pins == 2) cluster.ps(1).set_slow_versions(false);
    return grpc::Status::OK;
  });
  std::vector<uint64_t> evaluated;
  FakeWorkerScript script;
  script.on_evaluate = [&](const Evaluate& evaluate) {
    for (int i = 0; i < 2; ++i) {
      const auto steps = cluster.ps(i).PinnedSteps(evaluate.job_id(), i, evaluate.cut_id());
      evaluated.push_back(steps.value_or(0));
    }
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  JobSpec spec = EvaluatedJob(4, 2);
  spec.mutable_synchronous()->set_replicas(2);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.worker(0).Kill();  // It writes no more.
  EXPECT_THAT(evaluated, ElementsAre(2, 2, 4, 4));
  EXPECT_GE(pins, 2);
}

// A worker that reported steps without pushing them was believed: the job succeeded with empty
// shards.
TEST(AttachTest, WorkerThatReportsStepsWithoutPushingThemIsFoundOutAndExcluded) {
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorkerScript liar;
  liar.lies = [](const std::string&, uint64_t) { return true; };
  cluster.AddWorker(liar);
  const std::string job = cluster.Submit(PlainJob(10)).value();
  cluster.AwaitNotice(job, "it gets no more steps of this job");
  EXPECT_EQ(cluster.Get(job)->state(), RUNNING);
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 10);
  EXPECT_THAT(cluster.worker(1).Computed(job), SizeIs(10));
  EXPECT_EQ(cluster.Get(job)->steps_run_again(), 0u) << "they never were";
}

TEST(AttachTest, HonestWorkersOfAJobAreNotBlamedForALostServer) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(OnceAt(15, [&] { cluster.ps(1).Crash(); }));
  const std::string job = cluster.Submit(PlainJob(40)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 40);
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    EXPECT_FALSE(absl::StrContains(event.notice().message(), "have not got"))
        << event.notice().message();
  }
}

// A generation that somebody else had set left the job waiting without a word.
TEST(AttachTest, GenerationOfAStrangerIsAdoptedAndTold) {
  Gate submitted;
  std::string job;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(OnceAt(5, [&] {
    submitted.Pass();
    const auto stub = ParameterServerAdmin::NewStub(CreateChannel(cluster.ps(1).address()));
    grpc::ClientContext context;
    SetGenerationRequest request;
    request.set_job_id(job);
    request.set_shard(1);
    request.set_generation(1000);
    ShardStatus status;
    EXPECT_TRUE(stub->SetGeneration(&context, request, &status).ok());
  }));
  job = cluster.Submit(PlainJob(20)).value();
  submitted.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.AwaitNotice(job, "which this coordinator did not set");
  EXPECT_GT(cluster.Get(job)->generation(), 1000u);
  cluster.ExpectAllApplied(job, 20);
}

// Servers were once called one after the other, so that a slow one held up all after it.
TEST(AttachTest, ServersAreCalledAllAtOnce) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.ps(0).set_on_create([&](const std::string& /*job_id*/) {
    gate.Pass();
    return grpc::Status::OK;
  });
  cluster.ps(1).set_on_create([&](const std::string& /*job_id*/) {
    gate.Open();
    return grpc::Status::OK;
  });
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(3)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// It waited for the first shard's disk, and failed when that was mended.
TEST(AttachTest, ErrorThatPassesDoesNotHideOneThatDoesNot) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(0).set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "its disk gives an error");
  });
  cluster.ps(1).set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::DATA_LOSS, "its disk lost it");
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(5)).value();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), HasSubstr("its disk lost it"));
}

TEST(AttachTest, WhatDoesNotWorkOnAServerIsAWarningUntilItWorksAgain) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.ps(0).set_trouble("cuts cannot be written: no space on the disk");
  const std::string job = [&] {
    cluster.AddWorker();
    return cluster.Submit(PlainJob(1'000'000'000)).value();
  }();
  cluster.AwaitNotice(job, "ps-0: cuts cannot be written: no space on the disk");
  cluster.ps(0).set_trouble("");
  cluster.AwaitNotice(job, "ps-0: no longer: cuts cannot be written");
  EXPECT_THAT(cluster.Get(job)->warnings(), IsEmpty());
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

TEST(AttachTest, ServerThatCannotFlushKeepsTheJobWaitingAndItSaysWhy) {
  std::atomic<bool> full{true};
  std::atomic<int> refused{0};
  Gate refused_thrice;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.ps(0).set_on_flush([&] {
    if (full && ++refused == 3) refused_thrice.Open();
    return full ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is full")
                : grpc::Status::OK;
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AwaitRunning(job);
  refused_thrice.Pass();
  EXPECT_THAT(cluster.Get(job)->message(), AllOf(HasSubstr("ps-0"), HasSubstr("disk is full")));
  EXPECT_EQ(cluster.Get(job)->generation(), 1u);
  full = false;
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST(AttachTest, RestartedCoordinatorDoesNotEvaluateAgainWhatItHasEvaluated) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(EvaluatedJob(30, 10)).value();
  const auto first =
      cluster.Watch(job, 0, [](const JobEvent& event) { return event.has_evaluated(); });
  EXPECT_EQ(first->back().evaluated().step(), 10u);
  gate.AwaitSomebody();
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  gate.Open();
  cluster.ps(0).Join(cluster.address());
  worker.Join(cluster.address());
  std::vector<uint64_t> evaluated;
  std::vector<std::string> causes;
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    if (event.has_evaluated()) evaluated.push_back(event.evaluated().step());
    if (event.has_recovered()) causes.push_back(event.recovered().cause());
  }
  EXPECT_THAT(evaluated, ElementsAre(20, 30));
  EXPECT_THAT(causes, ElementsAre("the coordinator was started again"));
  EXPECT_EQ(cluster.Get(job)->state(), SUCCEEDED);
}

}  // namespace
}  // namespace millrace::coordinator
