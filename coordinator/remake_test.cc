// A real coordinator on loopback with fake ps servers and workers: jobs whose servers' disks are
// gone, and that go on from their newest checkpoint.
#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/proto_duration.h"
#include "coordinator/testing/fake_checkpoint.h"
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
using ::testing::SizeIs;

// A checkpoint of the job itself, in its directory.
uint64_t WriteCheckpointOf(const std::string& job, const JobSpec& spec,
                           const std::vector<AppliedSet>& applied) {
  return WriteFakeCheckpoint(
      spec.checkpoints().directory(),
      {.job_id = job, .spec = spec, .plan = PlainPlan(), .applied = applied});
}

JobSpec JobWithCheckpoints(uint64_t steps) {
  JobSpec spec = PlainJob(steps);
  spec.mutable_checkpoints()->set_directory(NewCheckpointDirectory());
  spec.mutable_checkpoints()->set_every_steps(1'000'000);
  return spec;
}

std::vector<Recovered> RemakesOf(FakeCluster& cluster, const std::string& job) {
  std::vector<Recovered> recoveries;
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    if (event.has_recovered()) recoveries.push_back(event.recovered());
  }
  return recoveries;
}

// The server's disk is another one from now on, and it serves that.
void GiveNewDisk(FakeCluster& cluster, int ps) {
  cluster.ps(ps).Kill();
  cluster.ps(ps).ReplaceDisk();
  cluster.ps(ps).Start(cluster.address());
}

// It comes back with what it had written long ago, and has no cut that it can step back to.
void LoseCutsOf(FakeCluster& cluster, int ps) {
  cluster.ps(ps).Kill();
  cluster.ps(ps).set_on_step_back(
      [] { return grpc::Status(grpc::StatusCode::DATA_LOSS, "cut-7: byte 40 is damaged"); });
  cluster.ps(ps).Start(cluster.address());
}

bool WasTold(FakeCluster& cluster, const std::string& job, const std::string& text) {
  const auto events = cluster.Watch(job);
  return std::any_of(events->begin(), events->end(), [&](const JobEvent& event) {
    return absl::StrContains(event.notice().message(), text);
  });
}

TEST(RemakeTest, AsynchronousJobMakesOnlyTheLostShardAgainAndRunsWhatItLacks) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
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

TEST(RemakeTest, SynchronousJobMakesAllItsShardsAgain) {
  Gate gate;
  FakeCluster cluster(3);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(31, &gate));
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
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
  FakeCluster cluster(2);
  cluster.StartPs();
  JobSpec spec = JobWithCheckpoints(70);
  spec.mutable_synchronous()->set_replicas(2);
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < 5; ++i) gates.push_back(std::make_unique<Gate>());
  std::atomic<uint64_t> reached{0};
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
  CoordinatorOptions options;
  options.restore_grace = absl::Milliseconds(200);
  Gate gate;
  FakeCluster cluster(2, options);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
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

TEST(RemakeTest, DamagedNewestCheckpointIsPassedOver) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  WriteCheckpointOf(job, spec, {StepsBefore(20)});
  {
    std::fstream manifest(spec.checkpoints().directory() + "/000002/manifest.json");
    manifest.seekp(60);
    manifest.put('~');
  }
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000001 at step 10");
  EXPECT_TRUE(WasTold(cluster, job, "a checkpoint cannot be used: "));
  EXPECT_TRUE(WasTold(cluster, job, "000002/manifest.json"));
}

// Its values are only read by the ps servers.
TEST(RemakeTest, CheckpointThatAServerFindsDamagedIsPassedOver) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  WriteCheckpointOf(job, spec, {StepsBefore(20)});
  cluster.ps(0).set_on_restore([](const ShardSpec& asked) {
    return asked.restore().checkpoint() == 2
               ? absl::DataLossError("000002/shard-00000.safetensors: byte 17 is damaged")
               : absl::OkStatus();
  });
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000001 at step 10");
}

// Those after a damaged one were never tried.
TEST(RemakeTest, CheckpointAfterADamagedOneIsTaken) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  WriteCheckpointOf(job, spec, {StepsBefore(15)});
  Gate written;
  cluster.ps(0).set_on_restore([&](const ShardSpec& asked) {
    if (asked.restore().checkpoint() != 2) return absl::OkStatus();
    WriteCheckpointOf(job, spec, {StepsBefore(20)});
    written.Open();
    return absl::DataLossError("000002/shard-00000.safetensors: byte 17 is damaged");
  });
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  // The server's thread has read `spec`: ThreadSanitizer sees no order in gRPC's calls.
  written.Pass();
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000003 at step 20");
}

TEST(RemakeTest, CheckpointThatIsRemovedWhileItIsReadIsNotCalledDamaged) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  WriteCheckpointOf(job, spec, {StepsBefore(20)});
  cluster.ps(0).set_on_restore(
      [directory = spec.checkpoints().directory()](const ShardSpec& asked) {
        if (asked.restore().checkpoint() != 2) return absl::OkStatus();
        std::filesystem::remove_all(directory + "/000002");
        return absl::DataLossError("000002/shard-00000.safetensors is not there");
      });
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000001 at step 10");
  EXPECT_FALSE(WasTold(cluster, job, "cannot be used"));
}

// A call that the coordinator gave up may arrive late.
TEST(RemakeTest, ShardThatIsThereWithAnotherSpecIsDroppedAndMade) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  CreateShardRequest late;
  *late.mutable_spec() = *cluster.ps(0).SpecOf(job, 0);
  late.set_generation(1);
  std::atomic<bool> is_late{true};
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
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
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
  Gate gate;
  FakeCluster cluster(3);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(2);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20), StepsBefore(20)});
  std::array<std::atomic<int>, 3> asked{};
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
TEST(RemakeTest, JobThatCannotStepBackIsMadeAgainFromItsCheckpoint) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_takes_planned_cuts(false);
  cluster.AddWorker(WaitingAt(31, &gate));
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20)});
  LoseCutsOf(cluster, 1);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  const std::vector<Recovered> recoveries = RemakesOf(cluster, job);
  ASSERT_THAT(recoveries, SizeIs(1));
  EXPECT_EQ(recoveries[0].cause(), "shard 1 on ps-1 is damaged");
  EXPECT_EQ(recoveries[0].how(), "all shards from checkpoint 000001 at step 20");
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
  LoseCutsOf(cluster, 1);
  gate.Open();
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("ps-1"), HasSubstr("cut-7: byte 40 is damaged"),
                    HasSubstr("it cannot be made again: the job has no checkpoints")));
}

TEST(RemakeTest, JobWithoutAUsableCheckpointWaitsAndSaysWhy) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(5, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  std::filesystem::create_directory(spec.checkpoints().directory());
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  GiveNewDisk(cluster, 0);
  gate.Open();
  cluster.AwaitNotice(job, "its shards cannot be made again: there is no checkpoint of the job in");
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

TEST(RemakeTest, CoordinatorThatDiesAnywhereInBetweenMakesThemAgain) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(30, &gate));
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(2);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(20), StepsBefore(20)});
  // Both have dropped what they had; the second one cannot make its shard.
  std::atomic<bool> stuck{true};
  Gate asked;
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

TEST(RemakeTest, ShardGoesToAServerThatHasRoomForIt) {
  CoordinatorOptions options;
  options.restore_grace = absl::Milliseconds(200);
  Gate gate;
  FakeCluster cluster(3, options);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_placement()->set_shards(3);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
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
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
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
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  cluster.ps(0).Kill();
  cluster.ps(0).DamageDisk();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 60);
  EXPECT_EQ(RemakesOf(cluster, job)[0].cause(), "shard 0 on ps-0 is damaged");
}

TEST(RemakeTest, JobWithoutCheckpointsFailsWhenAServerCannotReadAShardAndSaysWhy) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  cluster.ps(0).Kill();
  cluster.ps(0).DamageDisk();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("of shard 0: record 3: byte 9 is damaged"),
                    HasSubstr("it cannot be made again: the job has no checkpoints")));
}

// The job waited for ps-1 all the while, as people were told.
TEST(RemakeTest, WhoReadsForLongIsNamed) {
  CoordinatorOptions options;
  options.restore_grace = absl::Milliseconds(200);
  Gate gate;
  Gate reads;
  FakeCluster cluster(2, options);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const JobSpec spec = JobWithCheckpoints(60);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10)});
  cluster.ps(0).set_on_create([&](const std::string&) {
    reads.Pass();
    return grpc::Status::OK;
  });
  cluster.ps(1).Kill();
  cluster.AwaitVerdict(job, absl::StrCat("the job waits for shard 1 on ps-0 to read ",
                                         spec.checkpoints().directory(), "/000001 for "));
  EXPECT_THAT(cluster.Get(job)->message(), HasSubstr("waits for shard 1 on ps-0 to read "));
  reads.Open();
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// It was forgotten, and the damaged one was taken for the job's newest state.
TEST(RemakeTest, RestartedCoordinatorKnowsWhatIsDamaged) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script = WaitingAt(31, &gate);
  script.lease_slots = 1;  // Nobody trains when it stands there.
  cluster.AddWorker(script);
  JobSpec spec = JobWithCheckpoints(60);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  WriteCheckpointOf(job, spec, {StepsBefore(12)});
  WriteCheckpointOf(job, spec, {StepsBefore(20)});
  cluster.ps(0).set_on_restore([](const ShardSpec& asked) {
    return asked.restore().checkpoint() == 2
               ? absl::DataLossError("000002/shard-00000.safetensors: byte 17 is damaged")
               : absl::OkStatus();
  });
  GiveNewDisk(cluster, 0);
  const auto has_recovered = [](const JobEvent& event) { return event.has_recovered(); };
  const auto remade = cluster.Watch(job, 0, has_recovered);
  ASSERT_TRUE(remade.ok()) << remade.status();
  EXPECT_EQ(remade->back().recovered().how(), "all shards from checkpoint 000001 at step 12");
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  ASSERT_TRUE(cluster.Watch(job, remade->back().sequence(), has_recovered).ok());
  const auto saved = cluster.Checkpoint(job, /*wait=*/true);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->number(), 1u);
  gate.Open();
}

// The job that it was restored from has the checkpoint.
TEST(RemakeTest, RestoredJobThatHasNoCheckpointYetBeginsWhereItBegan) {
  Gate gate;
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(10)}});
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(30, &gate));
  JobSpec spec = PlainJob(50);
  spec.mutable_restore()->set_directory(directory);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job).front(), 10u);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000001 at step 10");
}

// It was thrown back to where it had begun, and its newer checkpoints were removed when the
// directory was back.
TEST(RemakeTest, RestoredJobWhoseDirectoryIsNotMountedWaitsForIt) {
  Gate gate;
  JobSpec spec = JobWithCheckpoints(50);
  const std::string& directory = spec.checkpoints().directory();
  spec.mutable_restore()->set_directory(NewCheckpointDirectory());
  WriteFakeCheckpoint(spec.restore().directory(),
                      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(10)}});
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(30, &gate));
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  std::filesystem::rename(directory, directory + "-elsewhere");
  std::filesystem::create_directory(directory);
  GiveNewDisk(cluster, 0);
  cluster.AwaitNotice(job, absl::StrCat(directory, " has no checkpoints, although the job has ",
                                        "written 000001 there: is it mounted"));
  EXPECT_THAT(cluster.ps(0).Shards(job), IsEmpty());
  gate.Open();
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

}  // namespace
}  // namespace millrace::coordinator
