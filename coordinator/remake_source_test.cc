// A real coordinator on loopback with fake ps servers and workers: which checkpoint shards are made
// again from when their disks are gone.
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_checkpoint.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::IsEmpty;

TEST(RemakeTest, DamagedFurthestCheckpointIsPassedOver) {
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
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
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
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
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10)});
  WriteCheckpointOf(job, spec, {StepsBefore(15)});
  cluster.ps(0).set_on_restore([job = standing.job, spec = standing.spec](const ShardSpec& asked) {
    if (asked.restore().checkpoint() != 2) return absl::OkStatus();
    WriteCheckpointOf(job, spec, {StepsBefore(20)});
    return absl::DataLossError("000002/shard-00000.safetensors: byte 17 is damaged");
  });
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(RemakesOf(cluster, job)[0].how(), "all shards from checkpoint 000003 at step 20");
}

TEST(RemakeTest, CheckpointThatIsRemovedWhileItIsReadIsNotCalledDamaged) {
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
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
  cluster.AwaitNotice(job,
                      "its shards cannot be made again: the job has written no checkpoint yet in");
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

// The directory is made with the first checkpoint: "there is no directory" is not what is the case.
TEST(RemakeTest, JobThatHasWrittenNoCheckpointSaysSoAndWhatToDo) {
  StandingJob standing(1, 5);
  auto& [gate, cluster, spec, job] = standing;
  GiveNewDisk(cluster, 0);
  gate.Open();
  cluster.AwaitNotice(job, "the job has written no checkpoint yet in");
  cluster.AwaitNotice(job, "start the ps server with that one, or cancel the job");
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

// The best one may be written after one of a later step.
TEST(RemakeTest, FurthestCheckpointIsTakenThoughOneOfAnEarlierStepIsNewer) {
  StandingJob standing(1, 30);
  auto& [gate, cluster, spec, job] = standing;
  std::vector<uint64_t> numbers;
  for (const uint64_t steps : {10, 25, 20}) {
    numbers.push_back(WriteCheckpointOf(job, spec, {StepsBefore(steps)}));
  }
  GiveNewDisk(cluster, 0);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(
      RemakesOf(cluster, job)[0].how(),
      absl::StrCat("all shards from checkpoint ", CheckpointFolder(numbers[1]), " at step 25"));
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
  // Their numbers are higher where the job has collected the first try of one.
  const uint64_t whole = WriteCheckpointOf(job, spec, {StepsBefore(12)});
  const uint64_t damaged = WriteCheckpointOf(job, spec, {StepsBefore(20)});
  cluster.ps(0).set_on_restore([damaged](const ShardSpec& asked) {
    return asked.restore().checkpoint() == damaged
               ? absl::DataLossError("000002/shard-00000.safetensors: byte 17 is damaged")
               : absl::OkStatus();
  });
  GiveNewDisk(cluster, 0);
  const auto has_recovered = [](const JobEvent& event) { return event.has_recovered(); };
  const auto remade = cluster.Watch(job, 0, has_recovered);
  ASSERT_TRUE(remade.ok()) << remade.status();
  EXPECT_EQ(remade->back().recovered().how(),
            absl::StrCat("all shards from checkpoint ", CheckpointFolder(whole), " at step 12"));
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  ASSERT_TRUE(cluster.Watch(job, remade->back().sequence(), has_recovered).ok());
  const auto saved = cluster.Checkpoint(job, /*wait=*/true);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->number(), whole);
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
