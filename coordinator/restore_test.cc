// A real coordinator on loopback with fake ps servers and workers: jobs that begin where a
// checkpoint is.
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/safetensors/safetensors_file.h"
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

// Of a job of 50 steps that goes on where `directory` has a checkpoint.
JobSpec RestoredJob(const std::string& directory) {
  JobSpec spec = PlainJob(50);
  spec.mutable_restore()->set_directory(directory);
  return spec;
}

std::vector<uint64_t> StepsFrom(uint64_t begin, uint64_t end) {
  std::vector<uint64_t> steps;
  for (uint64_t step = begin; step < end; ++step) steps.push_back(step);
  return steps;
}

bool HasNotice(FakeCluster& cluster, const std::string& job, const std::string& text) {
  const auto events = cluster.Watch(job);
  return std::any_of(events->begin(), events->end(), [&](const JobEvent& event) {
    return absl::StrContains(event.notice().message(), text);
  });
}

// Changes a byte.
void Damage(const std::string& path) {
  std::fstream file(path);
  file.seekp(10);
  file.put('~');
}

TEST(RestoreTest, RestoredJobGoesOnAtItsStepOnAnotherNumberOfServers) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory, {.spec = PlainJob(40),
                                  .plan = PlainPlan(),
                                  .applied = {StepsBefore(30), StepsBefore(30), StepsBefore(30)}});
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const auto job = cluster.Submit(RestoredJob(directory));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(cluster.AwaitEnd(*job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(*job, 50);
  EXPECT_EQ(worker.Computed(*job), StepsFrom(30, 50));
  EXPECT_THAT(cluster.ps(0).Shards(*job), SizeIs(1));
  EXPECT_THAT(cluster.ps(1).Shards(*job), SizeIs(1));
  EXPECT_TRUE(HasNotice(
      cluster, *job,
      absl::StrCat("goes on at step 30 from checkpoint ", directory, "/000001 of job earlier-1")));
}

// The newest by number was taken, which was the best one, of an earlier step.
TEST(RestoreTest, RestoredJobGoesOnFromTheFurthestStepOfTheDirectory) {
  const std::string directory = NewCheckpointDirectory();
  for (const uint64_t steps : {10, 30, 20}) {
    WriteFakeCheckpoint(
        directory, {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(steps)}});
  }
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(RestoredJob(directory)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job), StepsFrom(30, 50));
  EXPECT_TRUE(HasNotice(cluster, job, "000002"));
}

TEST(RestoreTest, JobThatIsRestoredNeverTakesANewerOneThanWhenItWasSubmitted) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(10)}});
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(RestoredJob(directory)).value();
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(20)}});
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job), StepsFrom(10, 50));
}

// It waited for a worker, as people were told, although that had come.
TEST(RestoreTest, WhoReadsWhatAJobBeginsWithForLongIsNamed) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(10)}});
  Gate reads;
  FakeCluster cluster(1);
  cluster.ps(0).set_on_create([&](const std::string&) {
    reads.Pass();
    return grpc::Status::OK;
  });
  cluster.StartPs();
  const std::string job = cluster.Submit(RestoredJob(directory)).value();
  cluster.AwaitVerdict(job, "the job waits for a worker");
  cluster.AddWorker();
  cluster.AwaitVerdict(
      job, absl::StrCat("the job waits for shard 0 on ps-0 to read ", directory, "/000001 for "));
  reads.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// It was refused its directory then, and wrote none.
TEST(RestoreTest, JobThatGoesBackBehindTheNewestWritesItsCheckpointsAfterThem) {
  const std::string directory = NewCheckpointDirectory();
  const auto write = [&](const std::string& job_id, uint64_t step) {
    WriteFakeCheckpoint(directory, {.job_id = job_id,
                                    .spec = PlainJob(50),
                                    .plan = PlainPlan(),
                                    .applied = {StepsBefore(step)}});
  };
  write("earlier-1", 10);
  write("earlier-2", 20);
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  JobSpec spec = RestoredJob(directory + "/");
  spec.mutable_restore()->set_checkpoint(1);
  spec.mutable_checkpoints()->set_directory(directory);
  const auto job = cluster.Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const JobStatus end = cluster.AwaitEnd(*job);
  EXPECT_EQ(end.state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(*job), StepsFrom(10, 50));
  EXPECT_THAT(end.warnings(), IsEmpty());
  EXPECT_EQ(end.checkpoint().number(), 3u);
  EXPECT_EQ(end.checkpoint().step(), 50u);
  std::string latest;
  std::ifstream(directory + "/latest") >> latest;
  EXPECT_EQ(latest, "000003");
}

TEST(RestoreTest, ShardsThatDifferInStepsAreNotMergedAndOnlyMissingStepsAreRun) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50),
                       .plan = PlainPlan(),
                       .applied = {StepsBefore(20, {22}), StepsBefore(21), StepsBefore(21)}});
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(RestoredJob(directory)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 50);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(2));
  EXPECT_EQ(worker.Computed(job), StepsFrom(20, 50));
  EXPECT_THAT(cluster.ps(0).AppliedInThisLife(), SizeIs(29 + 29)) << "nothing is applied twice";
  EXPECT_TRUE(HasNotice(cluster, job, "has 2 shards instead of 1"));
}

// No shard may have two steps' sets, and none a part of a variable.
TEST(RestoreTest, ShardsThatDifferInStepsMayNotDivideVariablesThatAreToBeWhole) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory, {.spec = PlainJob(50),
                                  .plan = PlainPlan(),
                                  .applied = {StepsBefore(20, {22}), StepsBefore(21)}});
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = RestoredJob(directory);
  spec.mutable_optimizer()->set_clip_norm(1);
  const absl::Status refused = cluster.Submit(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("variable 'v40' is divided in the checkpoint"));
}

TEST(RestoreTest, CheckpointOfDividedVariablesIsGoneOnFromWithWholeOnes) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(
      directory,
      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(20), StepsBefore(20)}});
  FakeCluster cluster(2);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  JobSpec spec = RestoredJob(directory);
  spec.mutable_optimizer()->set_clip_norm(1);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job), StepsFrom(20, 50));
  EXPECT_THAT(cluster.Variables(job)->routing().shards(0).slices(), SizeIs(2));
  EXPECT_THAT(cluster.Variables(job)->routing().shards(1).slices(), SizeIs(1));
}

TEST(RestoreTest, SynchronousJobGoesOnAtItsVersionAndEvaluatesWhatIsStillToCome) {
  JobSpec spec = EvaluatedJob(48, 12);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory, {.spec = spec,
                                  .plan = PlainPlan(),
                                  .applied = {StepsBefore(20), StepsBefore(20)},
                                  .epoch = 3});
  spec.mutable_restore()->set_directory(directory);
  FakeCluster cluster(3);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 48);
  EXPECT_EQ(worker.Computed(job), StepsFrom(20, 48));
  std::vector<uint64_t> evaluated;
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    if (event.has_evaluated()) evaluated.push_back(event.evaluated().step());
  }
  EXPECT_THAT(evaluated, ElementsAre(24, 36, 48));
}

TEST(RestoreTest, JobThatIsNotTheCheckpointsIsRefusedWithFieldAndValues) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(10)}});
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = RestoredJob(directory);
  spec.set_batch_size(7);
  const absl::Status refused = cluster.Submit(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("batch_size: 7; must be 1"));
  EXPECT_THAT(cluster.List(), SizeIs(0));
}

TEST(RestoreTest, OtherVariablesOrDataThanTheCheckpointsAreRefused) {
  const std::string directory = NewCheckpointDirectory();
  JobPlan plan = PlainPlan();
  plan.set_data_fingerprint(0x1234);
  WriteFakeCheckpoint(directory,
                      {.spec = PlainJob(50), .plan = plan, .applied = {StepsBefore(10)}});
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script;
  script.plan = [&](const JobSpec&) {
    JobPlan other = plan;
    other.set_data_fingerprint(0x9999);
    return other;
  };
  cluster.AddWorker(script);
  const absl::Status refused = cluster.Submit(RestoredJob(directory)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("0000000000009999"), HasSubstr("0000000000001234")));
}

JobSpec RestoredJob(const std::string& directory, uint64_t checkpoint) {
  JobSpec spec = RestoredJob(directory);
  spec.mutable_restore()->set_checkpoint(checkpoint);
  return spec;
}

// Checkpoints 1, 2, ... at these steps.
std::string CheckpointsAt(const std::vector<uint64_t>& steps) {
  std::string directory = NewCheckpointDirectory();
  for (const uint64_t step : steps) {
    WriteFakeCheckpoint(
        directory, {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(step)}});
  }
  return directory;
}

// Its values are only read by the ps servers, when the job begins.
void FindDamaged(const std::set<uint64_t>& checkpoints, FakePs& ps) {
  ps.set_on_restore([checkpoints](const ShardSpec& spec) {
    const uint64_t number = spec.restore().checkpoint();
    return checkpoints.contains(number)
               ? absl::DataLossError(absl::StrCat("00000", number, "/values: byte 17 is damaged"))
               : absl::OkStatus();
  });
}

TEST(RestoreTest, DamagedCheckpointThatIsNamedIsRefusedAndTheOneBeforeIsOffered) {
  const std::string directory = CheckpointsAt({10, 20});
  Damage(directory + "/000002/shard-00000.json");
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  const absl::Status refused = cluster.Submit(RestoredJob(directory, 2)).status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("000002/shard-00000.json"),
                    HasSubstr(absl::StrCat("--restore=", directory,
                                           "/000001 goes on from the one before, at step 10"))));
  EXPECT_TRUE(cluster.Submit(RestoredJob(directory, 1)).ok());
}

TEST(RestoreTest, NamedCheckpointThatAServerFindsDamagedFailsTheJobAndTheOneBeforeIsOffered) {
  const std::string directory = CheckpointsAt({10, 20});
  FakeCluster cluster(1);
  FindDamaged({2}, cluster.ps(0));
  cluster.StartPs();
  cluster.AddWorker();
  const JobStatus end = cluster.AwaitEnd(cluster.Submit(RestoredJob(directory, 2)).value());
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("000002/values: byte 17 is damaged"),
                    HasSubstr(absl::StrCat("; --restore=", directory,
                                           "/000001 goes on from the one before, at step 10"))));
  EXPECT_EQ(cluster.AwaitEnd(cluster.Submit(RestoredJob(directory, 1)).value()).state(), SUCCEEDED);
}

TEST(RestoreTest, FurthestCheckpointThatIsSeenToBeDamagedIsPassedOverAndTold) {
  const std::string directory = CheckpointsAt({10, 20});
  Damage(directory + "/000002/shard-00000.json");
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(RestoredJob(directory)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job), StepsFrom(10, 50));
  EXPECT_TRUE(HasNotice(cluster, job, "000002/shard-00000.json"));
  EXPECT_TRUE(HasNotice(
      cluster, job,
      absl::StrCat("goes on at step 10 from checkpoint ", directory, "/000001 of job earlier-1")));
}

// Such a job failed, and so did each one that was submitted after it.
TEST(RestoreTest, FurthestCheckpointThatAServerFindsDamagedIsPassedOverAndTold) {
  const std::string directory = CheckpointsAt({10, 20, 30});
  FakeCluster cluster(2);
  FindDamaged({2, 3}, cluster.ps(0));
  FindDamaged({3}, cluster.ps(1));
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  JobSpec spec = RestoredJob(directory);
  spec.mutable_checkpoints()->set_directory(directory);
  const std::string job = cluster.Submit(spec).value();
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), SUCCEEDED) << end.message();
  cluster.ExpectAllApplied(job, 50);
  EXPECT_EQ(worker.Computed(job), StepsFrom(10, 50));
  EXPECT_TRUE(HasNotice(cluster, job, "000003/values: byte 17 is damaged"));
  EXPECT_TRUE(HasNotice(
      cluster, job,
      absl::StrCat("checkpoint ", directory, "/000002 cannot be used, and the one before, ",
                   directory, "/000001 at step 10, is taken: ")));
  EXPECT_TRUE(HasNotice(
      cluster, job,
      absl::StrCat("goes on at step 10 from checkpoint ", directory, "/000001 of job earlier-1")));
  EXPECT_EQ(end.checkpoint().number(), 4u) << "of its own, in the directory that it goes on in";
}

TEST(RestoreTest, JobFailsWhenServersFindEveryCheckpointDamaged) {
  const std::string directory = CheckpointsAt({10, 20});
  FakeCluster cluster(1);
  FindDamaged({1, 2}, cluster.ps(0));
  cluster.StartPs();
  cluster.AddWorker();
  const JobStatus end = cluster.AwaitEnd(cluster.Submit(RestoredJob(directory)).value());
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("000001/values: byte 17 is damaged"),
                    HasSubstr("; none before it can be taken: restore: there is no other "
                              "checkpoint in " +
                              directory)));
}

// The coordinator ended when it divided such a job's variables, and again each time it was started.
TEST(RestoreTest, OneBeforeThatDividesVariablesThatAreToBeWholeIsNotTaken) {
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory, {.spec = PlainJob(50),
                                  .plan = PlainPlan(),
                                  .applied = {StepsBefore(20, {22}), StepsBefore(21)}});
  WriteFakeCheckpoint(
      directory,
      {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(30), StepsBefore(30)}});
  FakeCluster cluster(1);
  FindDamaged({2}, cluster.ps(0));
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = RestoredJob(directory);
  spec.mutable_optimizer()->set_clip_norm(1);
  const JobStatus end = cluster.AwaitEnd(cluster.Submit(spec).value());
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(),
              AllOf(HasSubstr("000002/values: byte 17 is damaged"),
                    HasSubstr("; none before it can be taken: optimizer: it needs the norms of "
                              "whole variables"),
                    HasSubstr("variable 'v40' is divided in the checkpoint")));
}

// Such a job failed: those that came later were not looked at.
TEST(RestoreTest, FurthestThatItsRunRemovesBeforeTheJobBeginsIsReplacedByTheFurthest) {
  for (const bool while_it_is_read : {false, true}) {
    const std::string directory = CheckpointsAt({10});
    FakeCluster cluster(1);
    const std::string job = cluster.Submit(RestoredJob(directory)).value();
    WriteFakeCheckpoint(directory,
                        {.spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(20)}});
    cluster.ps(0).set_on_restore([&](const ShardSpec& spec) {
      if (spec.restore().checkpoint() != 1) return absl::OkStatus();
      std::filesystem::remove_all(directory + "/000001");
      return while_it_is_read ? absl::DataLossError("000001/values is not there any more")
                              : absl::NotFoundError("there is no checkpoint 000001");
    });
    cluster.StartPs();
    FakeWorker& worker = cluster.AddWorker();
    const JobStatus end = cluster.AwaitEnd(job);
    EXPECT_EQ(end.state(), SUCCEEDED) << end.message();
    EXPECT_EQ(worker.Computed(job), StepsFrom(20, 50));
    EXPECT_TRUE(HasNotice(cluster, job,
                          absl::StrCat("checkpoint ", directory, "/000001, with which the job was ",
                                       "to begin, was removed, and the furthest, ", directory,
                                       "/000002 at step 20, is taken")));
    EXPECT_FALSE(HasNotice(cluster, job, "cannot be used"));
  }
}

// One of the run that the newest had left was taken.
TEST(RestoreTest, InsteadOfADamagedCheckpointOneIsTakenThatLedUpToIt) {
  const std::string directory = CheckpointsAt({10, 20});
  JobSpec spec = RestoredJob(directory, 1);
  spec.mutable_checkpoints()->set_directory(directory);
  FakeCluster cluster(1);
  FindDamaged({3}, cluster.ps(0));
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string before = cluster.Submit(spec).value();
  ASSERT_EQ(cluster.AwaitEnd(before).checkpoint().number(), 3u);
  const std::string job = cluster.Submit(RestoredJob(directory)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job), StepsFrom(10, 50));
}

// It was not run, and what its last evaluation had come to was not known.
TEST(RestoreTest, JobThatIsRestoredAtItsLastStepIsEvaluatedAndEnds) {
  JobSpec spec = EvaluatedJob(20, 0);
  spec.mutable_synchronous()->set_replicas(4);
  const std::string directory = NewCheckpointDirectory();
  WriteFakeCheckpoint(directory, {.spec = spec, .plan = PlainPlan(), .applied = {StepsBefore(20)}});
  spec.mutable_restore()->set_directory(directory);
  spec.mutable_checkpoints()->set_directory(directory);
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(spec).value();
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), SUCCEEDED) << end.message();
  EXPECT_THAT(worker.Computed(job), IsEmpty());
  EXPECT_EQ(end.metrics().count("eval_loss"), 1u);
  EXPECT_EQ(end.checkpoint().number(), 2u);
  const auto saved = ReadManifest(RealFileSystem(), directory, 2);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(saved->ended());
  EXPECT_EQ(saved->spec().restore().checkpoint(), 1u);
}

TEST(RestoreTest, CheckpointThatIsNotThereIsNamed) {
  FakeCluster cluster(1);
  const absl::Status refused = cluster.Submit(RestoredJob("/no/such/directory")).status();
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/no/such/directory"));
}

// A file with tensors of these names and sizes, all 0.
std::string WriteTensors(const std::vector<std::pair<std::string, uint64_t>>& tensors) {
  const std::string path = NewCheckpointDirectory() + ".safetensors";
  SafetensorsHeader header;
  uint64_t elements = 0;
  for (const auto& [name, size] : tensors) {
    header.tensors.push_back({name, "F32", {size}, 0, 0});
    elements += size;
  }
  auto writer = SafetensorsWriter::Create(RealFileSystem(), path, header);
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(writer->Append(std::vector<float>(elements)).ok());
  EXPECT_TRUE(writer->Finish().ok());
  return path;
}

TEST(WarmStartedJobTest, VariablesBeginWithTheTensorsThatTheRulesName) {
  const std::string path = WriteTensors({{"old/6", 6}, {"old/40", 40}});
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  JobSpec spec = PlainJob(5);
  spec.mutable_warm_start()->set_path(path);
  NameRule& rule = *spec.mutable_warm_start()->add_rules();
  rule.set_pattern("v(\\d+)");
  rule.set_replacement("old/\\1");
  const absl::Status refused = cluster.Submit(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it lacks 1 variable (v1 as old/1)"));
  spec.mutable_warm_start()->set_allow_missing(true);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(worker.Computed(job), StepsFrom(0, 5)) << "it begins at step 0";
  const ShardSpec shard = cluster.ps(0).SpecOf(job, 0).value();
  EXPECT_EQ(shard.slices(0).initial_value().stored().path(), path);
  EXPECT_EQ(shard.slices(0).initial_value().stored().name(), "old/6");
  EXPECT_TRUE(shard.slices(1).initial_value().has_constant());
  EXPECT_EQ(shard.slices(2).initial_value().stored().name(), "old/40");
  EXPECT_THAT(shard.slices(2).shape(), ElementsAre(40));
  EXPECT_TRUE(HasNotice(cluster, job, "begins with 2 variables from " + path));
}

// A worker that comes later plans it; then the file counts as it was when the job was planned.
TEST(WarmStartedJobTest, CheckpointOfAnotherJobIsFixedWhenTheJobIsPlanned) {
  const std::string directory = NewCheckpointDirectory();
  const FakeCheckpoint checkpoint = {
      .spec = PlainJob(50), .plan = PlainPlan(), .applied = {StepsBefore(10)}};
  WriteFakeCheckpoint(directory, checkpoint);
  FakeCluster cluster(1);
  JobSpec spec = PlainJob(5);
  spec.mutable_warm_start()->set_path(directory);
  const std::string job = cluster.Submit(spec).value();
  FakeWorker& worker = cluster.AddWorker();
  cluster.AwaitNotice(
      job,
      absl::StrCat("begins with 3 variables from checkpoint 000001 at step 10 in ", directory));
  WriteFakeCheckpoint(directory, checkpoint);
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  worker.Join(cluster.address());
  cluster.StartPs();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(cluster.ps(0).SpecOf(job, 0)->slices(0).initial_value().stored().checkpoint(), 1u);
}

}  // namespace
}  // namespace millrace::coordinator
