// A real coordinator on loopback with fake ps servers and workers: jobs whose servers' disks are
// gone, and that go on from their furthest checkpoint.
#include <array>
#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/proto_duration.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_checkpoint.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// It comes back with what it had written long ago, and has no cut that it can step back to.
void LoseCutsOf(FakeCluster& cluster, int ps, const grpc::Status& failure) {
  cluster.ps(ps).Kill();
  cluster.ps(ps).set_on_step_back([failure] { return failure; });
  cluster.ps(ps).Start(cluster.address());
}

TEST(RemakeTest, AsynchronousJobMakesOnlyTheLostShardAgainAndRunsWhatItLacks) {
  StandingJob standing(2, 30);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(12), StepsBefore(10, {11})});
  GiveNewDisk(cluster, 1);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  EXPECT_THAT(cluster.ps(0).AppliedInThisLife(), SizeIs(60)) << "it has lost nothing";
  EXPECT_THAT(cluster.ps(1).AppliedInThisLife(), SizeIs(49)) << "the checkpoint had eleven steps";
  const std::vector<Recovered> recoveries = RemakesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].cause(), "the data directory of ps-1 is gone");
  EXPECT_EQ(recoveries[0].how(), "shard 1 from checkpoint 000001 at step 10");
  EXPECT_EQ(FromProto(recoveries[0].load()), absl::Seconds(3));
  EXPECT_GE(recoveries[0].steps_lost(), 19u);
  EXPECT_EQ(cluster.Get(job)->steps_run_again(), recoveries[0].steps_lost());
}

// Whoever asked a server first decided: a worker's answer ended the job, the coordinator's had the
// shard made again.
TEST(RemakeTest, WorkerThatHearsOfDamageDoesNotEndTheJob) {
  std::atomic<bool> told{false};
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) -> absl::Status {
    if (step != 30 || told.exchange(true)) return absl::OkStatus();
    return absl::DataLossError("ps-1: no whole cut of shard 1 is left");
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(JobWithCheckpoints(60)).value();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_TRUE(told);
  cluster.ExpectAllApplied(job, 60);
}

TEST(RemakeTest, SynchronousJobMakesAllItsShardsAgain) {
  JobSpec wanted = JobWithCheckpoints(60);
  wanted.mutable_synchronous()->set_replicas(4);
  StandingJob standing(3, 31, wanted);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20), StepsBefore(20)});
  GiveNewDisk(cluster, 1);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  const std::vector<Recovered> recoveries = RemakesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].how(), "all shards from checkpoint 000001 at step 20");
  EXPECT_EQ(recoveries[0].step(), 20u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(cluster.ps(i).Shards(job), SizeIs(1)) << "those that are there stay where they are";
    EXPECT_EQ(cluster.ps(i).SpecOf(job, i)->restore().checkpoint(), 1u);
  }
}

TEST(RemakeTest, AllDisksMayGoAgainAndAgain) {
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < 5; ++i) gates.push_back(std::make_unique<Gate>());
  std::atomic<uint64_t> reached{0};
  FakeCluster cluster(2);
  cluster.StartPs();
  JobSpec spec = JobWithCheckpoints(70);
  spec.mutable_synchronous()->set_replicas(2);
  FakeWorkerScript script;
  script.on_step = [&](const std::string&, uint64_t step) {
    const uint64_t next = reached;
    if (next < 5 && step == 10 * (next + 1)) {
      ++reached;
      gates[next]->Pass();
    }
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(spec).value();
  for (uint64_t i = 0; i < 5; ++i) {
    gates[i]->AwaitSomebody();
    const uint64_t step = 10 * (i + 1) - 4;
    WriteCheckpointOf(job, spec, {StepsBefore(step), StepsBefore(step)});
    for (int ps = 0; ps < 2; ++ps) {
      cluster.ps(ps).Kill();
      cluster.ps(ps).ReplaceDisk();
    }
    for (int ps = 0; ps < 2; ++ps) cluster.ps(ps).Start(cluster.address());
    gates[i]->Open();
  }
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 70);
  EXPECT_THAT(RemakesOf(cluster, job), SizeIs(5));
  for (int ps = 0; ps < 2; ++ps) EXPECT_THAT(cluster.ps(ps).Shards(job), SizeIs(1));
}

TEST(RemakeTest, ServerThatStaysAwayIsGivenUpAfterTheGraceAndItsStrayShardGoes) {
  StandingJob standing(2, 30, JobWithCheckpoints(60), WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10)});
  cluster.ps(1).FlushAll();
  cluster.ps(1).Kill();
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(2));
  for (const ShardStatus& shard : cluster.ps(0).Shards(job)) {
    EXPECT_EQ(shard.applied().watermark(), 60u) << shard.shard();
  }
  EXPECT_THAT(RemakesOf(cluster, job)[0].cause(), HasSubstr("ps-1 is gone for longer than"));
  cluster.ps(1).Start(cluster.address());
  cluster.ps(1).AwaitDropped(job);
}

// A call that the coordinator gave up may arrive late.
TEST(RemakeTest, ShardThatIsThereWithAnotherSpecIsDroppedAndMade) {
  CreateShardRequest late;
  std::atomic<bool> is_late{true};
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  *late.mutable_spec() = *cluster.ps(0).SpecOf(job, 0);
  late.set_generation(1);
  FakePs& ps = cluster.ps(0);
  ps.Kill();
  ps.ReplaceDisk();
  ps.set_on_create([&](const std::string&) {
    ShardStatus status;
    return is_late.exchange(false) ? ps.CreateShard(nullptr, &late, &status) : grpc::Status::OK;
  });
  ps.Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000001 at step 10");
}

// Its checkpoint was taken for damaged, and the one before for the newest.
TEST(RemakeTest, ShardThatIsDamagedAsItIsMadeIsDroppedAndMade) {
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  WriteCheckpointOf(job, spec, {StepsBefore(20)});
  FakePs& ps = cluster.ps(0);
  ps.Kill();
  ps.ReplaceDisk();
  const auto damaged = [&ps] {
    return ps.drops() < 2 ? grpc::Status(grpc::StatusCode::DATA_LOSS, "its record is damaged")
                          : grpc::Status::OK;
  };
  ps.set_on_create([damaged](const std::string&) { return damaged(); });
  ps.set_on_get(damaged);
  ps.Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000002 at step 20");
  EXPECT_FALSE(WasTold(cluster, job, "cannot be used"));
}

// All shards were dropped and read again whenever one found no room.
TEST(RemakeTest, ShardThatWaitsForRoomHasNoOtherOneReadAgain) {
  JobSpec wanted = JobWithCheckpoints(60);
  wanted.mutable_synchronous()->set_replicas(2);
  std::array<std::atomic<int>, 3> asked{};
  StandingJob standing(3, 30, wanted);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20), StepsBefore(20)});
  const auto restore = [&](const ShardSpec& shard) {
    const int before = asked[shard.shard()]++;
    return shard.shard() == 2 && before < 4 ? absl::ResourceExhaustedError("no room")
                                            : absl::OkStatus();
  };
  for (int i = 0; i < 3; ++i) cluster.ps(i).set_on_restore(restore);
  GiveNewDisk(cluster, 1);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(asked[0], 1);
  EXPECT_EQ(asked[1], 1);
  EXPECT_EQ(asked[2], 5);
}

// Cuts of which the index says that they are there, and that cannot be read.
void ExpectMadeAgainWhereSteppingBackFails(const CoordinatorOptions& options,
                                           const grpc::Status& failure, const std::string& cause) {
  Gate early;
  Gate late;
  FakeWorkerScript script = WaitingAt(35, &late);
  script.on_step = [&, wait = script.on_step](const std::string& job, uint64_t step) {
    if (step == 24) early.Pass();
    return wait(job, step);
  };
  FakeCluster cluster(2, options);
  cluster.StartPs();
  for (int i = 0; i < 2; ++i) cluster.ps(i).set_takes_planned_cuts(false);
  cluster.AddWorker(script);
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  early.AwaitSomebody();
  for (int i = 0; i < 2; ++i) cluster.ps(i).FlushAll();
  early.Open();
  late.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20)});
  cluster.ps(0).FlushAll();
  LoseCutsOf(cluster, 1, failure);
  late.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  const std::vector<Recovered> recoveries = RemakesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].cause(), cause);
  EXPECT_EQ(recoveries[0].how(), "all shards from checkpoint 000001 at step 20");
}

TEST(RemakeTest, JobThatCannotStepBackIsMadeAgainFromItsCheckpoint) {
  ExpectMadeAgainWhereSteppingBackFails(
      {}, {grpc::StatusCode::DATA_LOSS, "cut-7: byte 40 is damaged"}, "shard 1 on ps-1 is damaged");
}

// It waited for the disk without end.
TEST(RemakeTest, JobThatCannotStepBackForLongIsMadeAgainFromItsCheckpoint) {
  ExpectMadeAgainWhereSteppingBackFails(
      WithGrace(absl::Seconds(1)),
      {grpc::StatusCode::UNAVAILABLE, "cut-7: cannot be read: Input/output error"},
      "shard 1 on ps-1 is not served for longer than 1s");
}

// All shards went back to their initial values: one with an old disk, or whose cuts are damaged,
// has no other state in common with the rest.
TEST(RemakeTest, SynchronousJobWithoutACommonCutGoesOnFromItsCheckpoint) {
  JobSpec wanted = JobWithCheckpoints(60);
  wanted.mutable_synchronous()->set_replicas(4);
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_takes_planned_cuts(false);
  cluster.AddWorker(WaitingAt(31, &gate));
  const std::string job = cluster.Submit(wanted).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, wanted, {StepsBefore(20), StepsBefore(20)});
  cluster.ps(1).Kill();
  cluster.ps(1).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  const std::vector<Recovered> recoveries = RemakesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].step(), 20u);
  EXPECT_EQ(recoveries[0].how(), "all shards from checkpoint 000001 at step 20");
  EXPECT_THAT(recoveries[0].cause(), HasSubstr("the newest cut that all have is of version 0"));
}

// The same, while nobody can tell how far the checkpoint is.
TEST(RemakeTest, SynchronousJobDoesNotBeginAnewWhileItsCheckpointCannotBeRead) {
  JobSpec wanted = JobWithCheckpoints(60);
  wanted.mutable_synchronous()->set_replicas(4);
  wanted.mutable_checkpoints()->set_every_steps(16);
  const std::string folder = wanted.checkpoints().directory() + "/000001";
  const std::string elsewhere = wanted.checkpoints().directory() + "-000001";
  Gate early;
  Gate late;
  FakeWorkerScript script;
  script.on_step = [&](const std::string& /*job*/, uint64_t step) {
    if (step == 2) early.Pass();
    if (step == 31) late.Pass();
    return absl::OkStatus();
  };
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(wanted).value();
  early.AwaitSomebody();
  const auto old_disk = cluster.ps(1).CopyDisk();
  for (int i = 0; i < 2; ++i) cluster.ps(i).AwaitAskedForCut(job, 4);
  early.Open();
  late.AwaitSomebody();
  ASSERT_EQ(cluster.AwaitCheckpoint(job).checkpoint_ended().step(), 16u);
  std::filesystem::rename(folder, elsewhere);
  cluster.ps(1).Kill();
  cluster.ps(1).PutDisk(*old_disk);
  cluster.ps(1).Start(cluster.address());
  late.Open();
  cluster.AwaitVerdict(job, "waits for its checkpoint");
  std::filesystem::rename(elsewhere, folder);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  EXPECT_EQ(RemakesOf(cluster, job)[0].step(), 16u);
}

TEST(RemakeTest, JobThatCannotStepBackAndHasNoCheckpointFailsAndSaysWhy) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_takes_planned_cuts(false);
  cluster.AddWorker(WaitingAt(31, &gate));
  JobSpec spec = PlainJob(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  LoseCutsOf(cluster, 1, {grpc::StatusCode::DATA_LOSS, "cut-7: byte 40 is damaged"});
  gate.Open();
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("ps-1"), HasSubstr("cut-7: byte 40 is damaged"),
                    HasSubstr("it cannot be made again: the job has no checkpoints")));
}

TEST(RemakeTest, CoordinatorThatDiesAnywhereInBetweenMakesThemAgain) {
  Gate gate;
  std::atomic<bool> stuck{true};
  Gate asked;
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(30, &gate));
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(2);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20)});
  // Both have dropped what they had; the second one cannot make its shard.
  cluster.ps(1).Kill();
  cluster.ps(1).ReplaceDisk();
  cluster.ps(1).set_on_create([&](const std::string&) {
    return stuck ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow")
                 : grpc::Status::OK;
  });
  cluster.ps(1).Start(cluster.address());
  gate.Open();
  cluster.AwaitNotice(job, "the disk is slow");
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  stuck = false;
  for (int i = 0; i < 2; ++i) cluster.ps(i).Join(cluster.address());
  worker.Join(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  const std::vector<Recovered> recoveries = RemakesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].cause(), "the data directory of ps-1 is gone");
  EXPECT_EQ(recoveries[0].how(), "all shards from checkpoint 000001 at step 20");
}

// It was found there again, and again it was to be made of what it was made of, for ever.
TEST(RemakeTest, ShardThatIsFurtherThanWhatIsMadeIsDroppedAndMadeOnceMore) {
  std::atomic<bool> stuck{true};
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(2);
  StandingJob standing(2, 30, spec);
  FakeCluster& cluster = standing.cluster;
  const std::string& job = standing.job;
  WriteCheckpointOf(job, standing.spec, {StepsBefore(20), StepsBefore(20)});
  cluster.ps(1).Kill();
  cluster.ps(1).ReplaceDisk();
  cluster.ps(1).set_on_create([&](const std::string& /*job*/) {
    return stuck ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow")
                 : grpc::Status::OK;
  });
  cluster.ps(1).Start(cluster.address());
  standing.gate.Open();
  cluster.AwaitNotice(job, "the disk is slow");
  // As where ps-0 is back with an older copy of its disk: the shard was made of the same checkpoint
  // before, and went on.
  const uint64_t generation = cluster.ps(0).Shards(job)[0].generation();
  for (uint64_t step = 20; step < 24; ++step) {
    EXPECT_EQ(cluster.ps(0).Push(job, 0, generation, step), absl::OkStatus());
  }
  cluster.ps(0).LoseCuts();
  stuck = false;
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
}

TEST(RemakeTest, ShardGoesToAServerThatHasRoomForIt) {
  JobSpec wanted = JobWithCheckpoints(60);
  wanted.mutable_placement()->set_shards(3);
  StandingJob standing(3, 30, wanted, WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10), StepsBefore(10)});
  cluster.ps(0).set_on_create([](const std::string&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "not enough memory");
  });
  cluster.ps(2).Kill();
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(1));
  EXPECT_THAT(cluster.ps(1).Shards(job), SizeIs(2));
}

TEST(RemakeTest, ShardThatIsNotOnItsServerAnyMoreIsMadeAgain) {
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  cluster.ps(0).Kill();
  cluster.ps(0).Wipe();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  EXPECT_EQ(RemakesOf(cluster, job)[0].cause(), "shard 0 on ps-0 is not there any more");
}

TEST(RemakeTest, ShardThatItsServerCannotReadIsMadeAgain) {
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  cluster.ps(0).Kill();
  cluster.ps(0).DamageDisk();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  EXPECT_EQ(RemakesOf(cluster, job)[0].cause(), "shard 0 on ps-0 is damaged");
}

TEST(RemakeTest, JobWithoutCheckpointsFailsWhenAServerCannotReadAShardForLongAndSaysWhy) {
  StandingJob standing(1, 30, PlainJob(60), WithPatience(absl::Seconds(2)));
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).Kill();
  cluster.ps(0).DamageDisk();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("of shard 0: record 3: byte 9 is damaged"),
                    HasSubstr("it cannot be made again: the job has no checkpoints")));
  EXPECT_TRUE(WasTold(cluster, job,
                      "shard 0 on ps-0 is damaged, and cannot be made again: the job "
                      "has no checkpoints (checkpoints.directory), and fails after "
                      "2s"));
}

// It failed at once, and lost what its other shards had.
TEST(RemakeTest, JobWithoutCheckpointsGoesOnWhenADamagedDiskIsReplacedByAWholeCopy) {
  StandingJob standing(2, 30, PlainJob(60));
  auto& [gate, cluster, spec, job] = standing;
  FakePs& ps = cluster.ps(0);
  ps.FlushAll();
  const auto whole = ps.CopyDisk();
  ps.Kill();
  ps.DamageDisk();
  ps.Start(cluster.address());
  cluster.AwaitNotice(job, "is damaged, and cannot be made again");
  ps.Kill();
  ps.PutDisk(*whole);
  ps.Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
}

// The job waited without end for a server that was there, where it went on without one that was
// not.
TEST(RemakeTest, ShardThatItsServerDoesNotServeIsMadeElsewhereAfterTheGrace) {
  StandingJob standing(2, 30, JobWithCheckpoints(60), WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10)});
  const auto unreadable = [] {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut 7: cannot be read: Input/output error");
  };
  cluster.ps(1).Kill();
  cluster.ps(1).set_on_generation(unreadable);
  cluster.ps(1).set_on_get(unreadable);
  cluster.ps(1).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(2));
  EXPECT_EQ(RemakesOf(cluster, job)[0].cause(),
            "shard 1 on ps-1 is not served for longer than 200ms");
}

// The others that it has could not be dropped, and the job waited for that without end.
TEST(RemakeTest, AllShardsOfAServerThatServesNoneAreMadeElsewhere) {
  JobSpec wanted = JobWithCheckpoints(60);
  wanted.mutable_synchronous()->set_replicas(4);
  wanted.mutable_placement()->set_shards(3);
  StandingJob standing(2, 31, wanted, WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20), StepsBefore(20)});
  ASSERT_THAT(cluster.ps(0).Shards(job), SizeIs(2));
  const auto refuses = [] {
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "Received http2 header: 403");
  };
  cluster.ps(0).Kill();
  cluster.ps(0).set_on_generation(refuses);
  cluster.ps(0).set_on_get(refuses);
  cluster.ps(0).set_on_drop(refuses);
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(1).Shards(job), SizeIs(3));
  EXPECT_THAT(RemakesOf(cluster, job), SizeIs(1));
}

// Its disk is full, and may have room again: the shard has lost nothing.
TEST(RemakeTest, ShardOfAServerThatCannotWriteStaysThere) {
  std::atomic<int> asked{0};  // Before the cluster, which uses it to its end.
  StandingJob standing(2, 30, JobWithCheckpoints(60), WithGrace(absl::Milliseconds(300)));
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10)});
  cluster.ps(1).FlushAll();
  cluster.ps(1).Kill();
  cluster.ps(1).set_on_generation([&] {
    return ++asked < 6 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no space left on device")
                       : grpc::Status::OK;
  });
  cluster.ps(1).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(1).Shards(job), SizeIs(1));
  EXPECT_FALSE(WasTold(cluster, job, "not served"));
}

// The job's second server goes, and the first one reads the shard once the gate is open.
void MakeAgainSlowly(StandingJob& standing, Gate& reads) {
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10)});
  cluster.ps(0).set_on_create([&reads](const std::string&) {
    reads.Pass();
    return grpc::Status::OK;
  });
  cluster.ps(1).Kill();
}

// The job waited for ps-1 all the while, as people were told.
TEST(RemakeTest, WhoReadsForLongIsNamed) {
  Gate reads;
  StandingJob standing(2, 30, JobWithCheckpoints(60), WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  MakeAgainSlowly(standing, reads);
  cluster.AwaitVerdict(job, absl::StrCat("the job waits for shard 1 on ps-0 to read ",
                                         spec.checkpoints().directory(), "/000001 for "));
  EXPECT_THAT(cluster.Get(job)->message(), HasSubstr("waits for shard 1 on ps-0 to read "));
  // Who pulls is to wait: there is nothing at the shard's place yet.
  const absl::Status later = cluster.Variables(job).status();
  EXPECT_TRUE(absl::IsUnavailable(later)) << later;
  EXPECT_THAT(std::string(later.message()), HasSubstr("are being made again: shard 1 on ps-0"));
  reads.Open();
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST(RemakeTest, NobodyWaitsForAShardOfAJobThatEndedBeforeItWasMadeAgain) {
  Gate reads;
  StandingJob standing(2, 30, JobWithCheckpoints(60), WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  MakeAgainSlowly(standing, reads);
  reads.AwaitSomebody();
  ASSERT_TRUE(cluster.Cancel(job).ok());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), CANCELLED);
  const absl::Status gone = cluster.Variables(job).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()),
              HasSubstr("ended before shard 1 on ps-0 was made again; train it again"));
  reads.Open();
  gate.Open();
}

}  // namespace
}  // namespace millrace::coordinator
