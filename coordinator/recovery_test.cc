// A real coordinator on loopback with fake ps servers and workers: what happens when one of
// them goes, and when it comes back.
#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "common/net/channel.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "coordinator/testing/member_connection.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(RecoveryTest, LeasesOfADeadWorkerGoToOthers) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
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
  cluster.ExpectAllApplied(job, 40);
}

TEST(RecoveryTest, WorkerThatLeavesInGoodOrderLosesNothing) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& first = cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(2000)).value();
  cluster.AwaitRunning(job);
  first.Leave();
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 2000);
}

// Workers that were restarted one after the other, each while it planned the job, once ended it.
TEST(RecoveryTest, WorkersThatLeaveWhileTheyPlanAreNotHeldAgainstTheJob) {
  FakeCluster cluster(1);
  cluster.StartPs();
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AwaitNotice(job, "a worker (none is connected)");
  for (const char* name : {"leaver-0", "leaver-1", "leaver-2"}) {
    std::atomic<MemberConnection*> self{nullptr};
    MemberConnection connection(cluster.address(), [&](const CoordinatorMessage& message) {
      MemberMessage leaving;
      leaving.mutable_leaving();
      if (message.has_plan_job()) self.load()->Send(leaving);
    });
    self = &connection;
    MemberMessage registration;
    registration.mutable_register_worker()->set_name(name);
    registration.mutable_register_worker()->set_lease_slots(1);
    connection.Send(registration);
    EXPECT_TRUE(connection.AwaitEnd().ok());
  }
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    EXPECT_THAT(event.notice().message(), Not(HasSubstr("lost")));
  }
}

TEST(RecoveryTest, ReturnOfAPsServerRunsOnlyTheMissingSteps) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
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
  cluster.ExpectAllApplied(job, 50);
  EXPECT_THAT(cluster.ps(1).AppliedInThisLife(), SizeIs(40)) << "ten steps had been flushed";
  EXPECT_THAT(cluster.ps(0).AppliedInThisLife(), SizeIs(50)) << "nothing is applied twice";
  EXPECT_GE(before.size(), 30u);
  EXPECT_THAT(worker.Generations(job), ElementsAre(1, 2));
  EXPECT_EQ(cluster.Get(job)->generation(), 2u);
  EXPECT_THAT(cluster.Get(job)->message(), IsEmpty());
}

TEST(RecoveryTest, LossOfAPsServerAtTheVeryEndIsMadeUpForBeforeTheJobSucceeds) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAtEvaluation(&gate));
  const std::string job = cluster.Submit(EvaluatedJob(20, 0)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  cluster.ps(0).Start(cluster.address());
  cluster.AwaitNotice(job, "the evaluation at step 20 was given up");
  gate.Open();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_EQ(status.metrics().count("eval_loss"), 1u);
  cluster.ExpectAllApplied(job, 20);
}

TEST(RecoveryTest, SynchronousJobGoesOnWhenAPsServerReturnsWithItsNewestVersion) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_flush_always(true);
  cluster.AddWorker(WaitingAt(31, &gate));
  JobSpec spec = PlainJob(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  cluster.ps(1).Kill();
  gate.Open();
  cluster.AwaitNotice(job, "ps-1");
  cluster.ps(1).Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
}

// It may have come back with another copy of its disk than the right one.
TEST(RecoveryTest, JobFailsWhenAPsServerLostItsShardAndDoesNotFindIt) {
  StandingJob standing(1, 5, PlainJob(60), WithPatience(absl::Milliseconds(50)));
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).Kill();
  cluster.ps(0).Wipe();
  gate.Open();
  cluster.ps(0).Start(cluster.address());
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ps-0"), HasSubstr("shard 0")));
}

// The job failed within seconds, where it waited for a server that was away.
TEST(RecoveryTest, JobGoesOnWhenAPsServerThatLostItsShardFindsItAgain) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakePs& ps = cluster.ps(0);
  const auto disk_before = ps.CopyDisk();
  cluster.AddWorker(WaitingAt(30, &gate));
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  ps.FlushAll();
  const auto disk = ps.CopyDisk();
  ps.Kill();
  ps.PutDisk(*disk_before);
  ps.Start(cluster.address());
  gate.Open();
  cluster.AwaitNotice(job, "shard 0 on ps-0 is not there any more, and cannot be made again");
  ps.Kill();
  ps.PutDisk(*disk);
  ps.Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
}

TEST(RecoveryTest, RunningJobFailsWhenAMemberStaysAway) {
  StandingJob standing(1, 5, PlainJob(60), WithPatience(absl::Milliseconds(50)));
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).Kill();
  gate.Open();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ps-0"), HasSubstr("waited 50ms")));
}

TEST(RecoveryTest, EvaluationIsGivenToAnotherWorkerWhenItsWorkerDies) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& first =
      cluster.AddWorker(WaitingAtEvaluation(&gate, absl::UnavailableError("dying")));
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

TEST(RecoveryTest, RestartedCoordinatorListsOldJobsAndGoesOnWithTheRunningOnes) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
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
  cluster.ExpectAllApplied(running, 50);
  EXPECT_THAT(cluster.ps(0).AppliedInThisLife(), SizeIs(60)) << "nothing is applied twice";
  EXPECT_EQ(cluster.Get(running)->generation(), 2u);
  EXPECT_THAT(cluster.Submit(PlainJob(1)).value(), StartsWith("plain-3-"));
}

// Starts the cluster. ps-1 does not make its shard of the job.
std::string SubmitJobThatWaitsForPs1(FakeCluster& cluster) {
  cluster.ps(1).set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow");
  });
  cluster.StartPs();
  cluster.AddWorker();
  std::string job = cluster.Submit(PlainJob(30)).value();
  cluster.AwaitNotice(job, "ps-1 (127.0.0.1:");
  return job;
}

void ReplaceDiskOfPs1(FakeCluster& cluster) {
  cluster.ps(1).Kill();
  cluster.ps(1).ReplaceDisk();
  cluster.ps(1).set_on_create(nullptr);
  cluster.ps(1).Start(cluster.address());
}

TEST(RecoveryTest, JobThatNeverRanIsPlacedAgainWhenAServerLostItsDisk) {
  FakeCluster cluster(2);
  const std::string job = SubmitJobThatWaitsForPs1(cluster);
  EXPECT_EQ(cluster.Get(job)->state(), PENDING);
  ReplaceDiskOfPs1(cluster);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(1));
  EXPECT_THAT(cluster.ps(1).Shards(job), SizeIs(1));
  cluster.ExpectAllApplied(job, 30);
}

// It waited without end, and so did all jobs in a queue that were placed there.
TEST(RecoveryTest, JobThatNeverRanBeginsElsewhereWhenAServerStaysAway) {
  CoordinatorOptions options;
  options.restore_grace = absl::Seconds(3);
  Gate gate;
  FakeCluster cluster(2, options);
  cluster.ps(0).set_on_create([&gate](const std::string& /*job_id*/) {
    gate.Pass();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it stops");
  });
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = PlainJob(30);
  spec.mutable_placement()->set_shards(1);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  FakePs spare("spare");  // There are to be two.
  spare.Start(cluster.address());
  gate.Open();
  cluster.ps(0).Kill();
  cluster.AwaitNotice(job, "ps-0 is gone for ");
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(1).Shards(job), SizeIs(1));
}

// What it had made on a server that was away too stayed there for ever, and failed the job where
// its shards came to lie otherwise.
TEST(RecoveryTest, JobIsPlacedAgainWhenWhatItMadeElsewhereIsDropped) {
  FakeCluster cluster(3);
  const std::string job = SubmitJobThatWaitsForPs1(cluster);
  cluster.ps(0).FlushAll();
  cluster.ps(0).Kill();
  ReplaceDiskOfPs1(cluster);
  cluster.AwaitNotice(job, "ps-0 (127.0.0.1:");
  cluster.ps(0).Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 30);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(1));
}

// Where one of its shards could not be dropped, those that were dropped counted as gone when the
// job had made them again: nobody unpinned, fenced or retired them.
TEST(RecoveryTest, JobThatCouldNotBePlacedAgainRunsWhereItWasWithAllItsShards) {
  std::atomic<bool> stuck{true};
  FakeCluster cluster(3);
  cluster.ps(2).set_on_drop([&] {
    return stuck ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is stuck")
                 : grpc::Status::OK;
  });
  cluster.ps(1).set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow");
  });
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(EvaluatedJob(20, 10)).value();
  cluster.AwaitNotice(job, "ps-1 (127.0.0.1:");
  FakePs shelf("shelf");
  cluster.ps(1).Kill();
  cluster.ps(1).MoveDiskTo(shelf);
  cluster.ps(1).set_on_create(nullptr);
  cluster.ps(1).Start(cluster.address());
  cluster.AwaitNotice(job, "the disk is stuck");
  cluster.ps(1).Kill();
  shelf.MoveDiskTo(cluster.ps(1));
  cluster.ps(1).Start(cluster.address());
  stuck = false;
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 20);
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) EXPECT_FALSE(event.has_recovered()) << event.DebugString();
  for (int i = 0; i < 3; ++i) cluster.ps(i).AwaitRetired(job);
}

// A call to unpin that came late once had the job wait for ever.
TEST(RecoveryTest, EvaluationWhosePinsAreGoneIsGivenUpAndTheJobGoesOnInAnotherGeneration) {
  FakeCluster cluster(1);
  cluster.StartPs();
  std::atomic<bool> unpinned{false};
  FakeWorkerScript script;
  script.on_evaluate = [&](const Evaluate& evaluate) {
    const std::string& job = evaluate.job_id();
    if (!unpinned.exchange(true)) {
      const auto stub = ParameterServerAdmin::NewStub(CreateChannel(cluster.ps(0).address()));
      grpc::ClientContext context;
      UnpinCutRequest request;
      request.set_job_id(job);
      request.set_generation(evaluate.generation());
      request.set_cut_id(evaluate.cut_id());
      UnpinCutResponse response;
      EXPECT_TRUE(stub->UnpinCut(&context, request, &response).ok());
      SpinUntil("steps after the evaluation's",
                [&] { return cluster.ps(0).Shards(job)[0].version() > 10; });
    }
    const bool is_pinned = cluster.ps(0).PinnedSteps(job, 0, evaluate.cut_id()).has_value();
    return is_pinned ? absl::OkStatus() : absl::NotFoundError("no such cut");
  };
  cluster.AddWorker(script);
  cluster.AddWorker(script);  // One trains while the other one evaluates.
  const std::string job = cluster.Submit(EvaluatedJob(30, 10)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto events = cluster.Watch(job);
  std::vector<uint64_t> evaluated;
  for (const JobEvent& event : *events) {
    if (event.has_evaluated()) evaluated.push_back(event.evaluated().step());
  }
  EXPECT_THAT(evaluated, ElementsAre(20, 30)) << "that of step 10 is gone";
  EXPECT_GT(cluster.Get(job)->generation(), 1u);
  cluster.ExpectAllApplied(job, 30);
}

// A shard that the job had left was in the server's memory for ever.
TEST(RecoveryTest, ShardOfAJobThatWasPlacedElsewhereIsDroppedWhenItsDirectoryIsBack) {
  std::atomic<bool> full{true};
  FakeCluster cluster(2);
  cluster.ps(0).set_on_create([&](const std::string& /*job_id*/) {
    return full ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "not enough memory")
                : grpc::Status::OK;
  });
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AwaitNotice(job, "not enough memory");
  FakePs elsewhere("ps-9");
  cluster.ps(1).Kill();
  cluster.ps(1).MoveDiskTo(elsewhere);
  cluster.ps(1).Start(cluster.address());
  full = false;
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  elsewhere.Start(cluster.address());
  elsewhere.AwaitDropped(job);
  EXPECT_THAT(cluster.ps(1).Shards(job), SizeIs(1)) << "where it ran";
}

TEST(RecoveryTest, RunningJobSaysThatAServerIsBackWithAnotherDirectory) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(5, &gate));
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  cluster.ps(0).ReplaceDisk();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  cluster.AwaitNotice(job, "back with another data directory");
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

}  // namespace
}  // namespace millrace::coordinator
