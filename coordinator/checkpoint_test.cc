// Checkpoints of a real coordinator, with fake members whose shards' files are real.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class CheckpointTest : public testing::Test {
 protected:
  JobSpec Job(uint64_t steps) const {
    JobSpec spec = PlainJob(steps);
    spec.mutable_checkpoints()->set_directory(directory_);
    return spec;
  }
  JobSpec SynchronousJob(uint64_t steps, uint32_t replicas) const {
    JobSpec spec = Job(steps);
    spec.mutable_synchronous()->set_replicas(replicas);
    return spec;
  }

  std::vector<CheckpointManifest> Manifests() const {
    std::vector<CheckpointManifest> manifests;
    const auto listed = CheckpointDirectory(RealFileSystem(), directory_).List();
    if (!listed.ok()) return manifests;
    for (const auto& each : *listed) manifests.push_back(each.manifest.value());
    return manifests;
  }
  std::vector<std::string> Folders() const {
    std::vector<std::string> folders;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.is_directory()) folders.push_back(entry.path().filename());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
  }

  // Begins to write checkpoints, and stands there until the call is cancelled.
  static std::function<grpc::Status(grpc::ServerContext*)> WritingForEver(Gate* begun) {
    return [begun](grpc::ServerContext* context) {
      begun->Open();
      SpinUntil("a cancellation", [&] { return context->IsCancelled(); });
      return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled");
    };
  }

  const std::string directory_ = TestDirectory("checkpoints");
};

TEST_F(CheckpointTest, JobsEndIsSaved) {
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(Job(50)).value();
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED);
  EXPECT_THAT(status.warnings(), IsEmpty());
  EXPECT_EQ(status.checkpoint().directory(), directory_);
  EXPECT_EQ(status.checkpoint().number(), 1u);
  EXPECT_EQ(status.checkpoint().step(), 50u);
  EXPECT_GT(status.checkpoint().bytes(), 47 * sizeof(float) - 1);
  const CheckpointEnded ended = cluster.AwaitCheckpoint(job).checkpoint_ended();
  EXPECT_EQ(ended.cause(), "the job's end");
  EXPECT_EQ(ended.error(), "");
  EXPECT_TRUE(ended.exact());
  const std::vector<CheckpointManifest> manifests = Manifests();
  ASSERT_THAT(manifests, SizeIs(1));
  EXPECT_EQ(manifests[0].job_id(), job);
  EXPECT_EQ(manifests[0].spec().name(), "plain");
  EXPECT_EQ(manifests[0].plan().variables_size(), 3);
  EXPECT_EQ(manifests[0].step(), 50u);
  EXPECT_TRUE(manifests[0].ended());
  EXPECT_EQ(cluster.Checkpoint(job, /*wait=*/true)->number(), 1u);
}

TEST_F(CheckpointTest, EvaluatedJobIsSavedAfterItsLastEvaluation) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = Job(20);
  *spec.mutable_data()->mutable_evaluate() = spec.data().train();
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().step(), 20u);
  EXPECT_EQ(Manifests().at(0).metrics().count("eval_loss"), 1u);
}

TEST_F(CheckpointTest, ClientHasOneWritten) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  const auto written = cluster.Checkpoint(job, /*wait=*/true);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->number(), 1u);
  EXPECT_EQ(written->step(), 10u);
  EXPECT_FALSE(Manifests().at(0).ended());
  EXPECT_EQ(cluster.AwaitCheckpoint(job).checkpoint_ended().cause(), "a client asked for it");
  EXPECT_EQ(cluster.Get(job)->checkpoint().number(), 1u);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().number(), 2u);
}

TEST_F(CheckpointTest, JobWithoutADirectoryHasNone) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  const auto refused = cluster.Checkpoint(job, /*wait=*/true);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("checkpoints.directory"));
  gate.Open();
  EXPECT_FALSE(cluster.AwaitEnd(job).has_checkpoint());
  EXPECT_EQ(cluster.Checkpoint(job, false).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster.Checkpoint("nobody", false).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, SynchronousOneIsOfTheVersionThatIsDue) {
  Gate early;
  Gate late;
  FakeWorkerScript script;
  script.on_step = [&](const std::string& /*job*/, uint64_t step) {
    if (step == 6) early.Pass();
    if (step == 26) late.Pass();
    return absl::OkStatus();
  };
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(script);
  JobSpec spec = SynchronousJob(40, 2);
  spec.mutable_checkpoints()->set_every_steps(19);
  const std::string job = cluster.Submit(spec).value();
  early.AwaitSomebody();
  for (int i = 0; i < 2; ++i) cluster.ps(i).AwaitAskedForCut(job, 10);
  early.Open();
  late.AwaitSomebody();
  const CheckpointEnded ended = cluster.AwaitCheckpoint(job).checkpoint_ended();
  EXPECT_EQ(ended.error(), "");
  EXPECT_EQ(ended.cause(), "every 20 steps");
  EXPECT_EQ(ended.step(), 20u);
  EXPECT_TRUE(ended.exact());
  const auto manifests = Manifests();
  for (const CheckpointShard& shard : manifests.at(0).shards()) EXPECT_EQ(shard.version(), 10u);
  late.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().step(), 40u);
}

TEST_F(CheckpointTest, ExactOneStopsTheJobAtABarrierAndNoLonger) {
  Gate writes;
  Gate may_write;
  Gate late;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_on_write([&](grpc::ServerContext*) {
    writes.Open();
    may_write.Pass();
    return grpc::Status::OK;
  });
  FakeWorkerScript script = WaitingAt(27, &late);
  script.lease_slots = 8;
  cluster.AddWorker(script);
  JobSpec spec = Job(40);
  spec.mutable_checkpoints()->set_every_steps(20);
  spec.mutable_checkpoints()->set_exact(true);
  const std::string job = cluster.Submit(spec).value();
  writes.Pass();
  late.AwaitSomebody();  // Training goes on while it is written.
  EXPECT_EQ(cluster.ps(1).PinnedSteps(job, 1, "checkpoint-1"), 20u);
  may_write.Open();
  const CheckpointEnded ended = cluster.AwaitCheckpoint(job).checkpoint_ended();
  EXPECT_EQ(ended.error(), "");
  EXPECT_EQ(ended.step(), 20u);
  EXPECT_TRUE(ended.exact());
  EXPECT_FALSE(cluster.ps(1).PinnedSteps(job, 1, "checkpoint-1"));
  late.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().step(), 40u);
}

TEST_F(CheckpointTest, ExactOneAndAnEvaluationAreOfOneBarrier) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  JobSpec spec = EvaluatedJob(40, 20);
  spec.mutable_checkpoints()->set_directory(directory_);
  spec.mutable_checkpoints()->set_every_steps(20);
  spec.mutable_checkpoints()->set_exact(true);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  std::vector<uint64_t> steps;
  for (const CheckpointManifest& manifest : Manifests()) steps.push_back(manifest.step());
  EXPECT_THAT(steps, ElementsAre(20, 40));
}

TEST_F(CheckpointTest, RequestOfAnExactJobIsServedWhereItIs) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  JobSpec spec = Job(20);
  spec.mutable_checkpoints()->set_exact(true);
  spec.mutable_asynchronous()->set_staleness_bound(0);
  const std::string job = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  std::thread opens([&] { gate.Open(); });
  const auto written = cluster.Checkpoint(job, /*wait=*/true);
  opens.join();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_GE(written->step(), 10u);
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  for (const CheckpointManifest& manifest : Manifests()) EXPECT_TRUE(manifest.exact());
}

TEST_F(CheckpointTest, OneIsGivenUpWhenAShardIsLostOnTheWay) {
  Gate gate;
  Gate begun;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(0).set_on_write(WritingForEver(&begun));
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  cluster.ps(0).FlushAll();
  cluster.ps(1).FlushAll();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/false).ok());
  begun.Pass();
  cluster.ps(1).Kill();
  const CheckpointEnded ended = cluster.AwaitCheckpoint(job).checkpoint_ended();
  EXPECT_THAT(ended.error(), HasSubstr("ps-1"));
  EXPECT_THAT(Manifests(), IsEmpty());
  cluster.ps(1).Start(cluster.address());
  cluster.ps(0).Kill();
  cluster.ps(0).set_on_write(nullptr);
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().step(), 20u);
  EXPECT_THAT(Folders(), SizeIs(1));
}

TEST_F(CheckpointTest, DiskThatIsFullIsToldAndTheNextOneWorks) {
  Gate gate;
  std::atomic<bool> full = true;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_on_write([&](grpc::ServerContext*) {
    return full ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no space on the disk")
                : grpc::Status::OK;
  });
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  const auto failed = cluster.Checkpoint(job, /*wait=*/true);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("no space on the disk"));
  EXPECT_THAT(cluster.AwaitCheckpoint(job).checkpoint_ended().error(), HasSubstr("ps-1"));
  EXPECT_THAT(cluster.Get(job)->warnings(),
              ElementsAre(HasSubstr("checkpoints: a checkpoint was given up")));
  full = false;
  EXPECT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  EXPECT_THAT(cluster.Get(job)->warnings(), IsEmpty());
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST_F(CheckpointTest, CoordinatorThatDiesMeanwhileLeavesNothingThatCounts) {
  Gate gate;
  Gate begun;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.ps(0).set_on_write(WritingForEver(&begun));
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/false).ok());
  begun.Pass();
  cluster.StopCoordinator();
  std::filesystem::create_directory(directory_ + "/000007");  // As if it had been killed.
  cluster.ps(0).FlushAll();
  cluster.ps(0).Kill();
  cluster.ps(0).set_on_write(nullptr);
  cluster.StartCoordinator();
  cluster.ps(0).Start(cluster.address());
  gate.Open();
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().step(), 20u);
  EXPECT_THAT(Folders(), SizeIs(1));
}

TEST_F(CheckpointTest, RestartedCoordinatorKnowsTheNewestOne) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  EXPECT_EQ(cluster.Get(job)->checkpoint().step(), 10u);
  gate.Open();
}

TEST_F(CheckpointTest, CoordinatorThatStopsInOrderHasOneWritten) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  cluster.StopCoordinatorInOrder();
  ASSERT_THAT(Manifests(), SizeIs(1));
  EXPECT_EQ(Manifests()[0].step(), 10u);
  cluster.StartCoordinator();
  EXPECT_EQ(cluster.Get(job)->checkpoint().step(), 10u);
  gate.Open();
}

TEST_F(CheckpointTest, PsThatStopsWaitsForOne) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  cluster.ps(1).Drain();
  cluster.ps(1).AwaitMayLeave();
  EXPECT_EQ(Manifests().at(0).step(), 10u);
  EXPECT_EQ(cluster.AwaitCheckpoint(job).checkpoint_ended().cause(), "ps-1 stops");
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST_F(CheckpointTest, PsWithNothingToSaveMayLeaveAtOnce) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.ps(0).Drain();
  cluster.ps(0).AwaitMayLeave();
}

// The job trained to its end, and nothing was saved.
TEST_F(CheckpointTest, DirectoryThatCanNeverBeIsRefused) {
  FakeCluster cluster(1);
  cluster.StartPs();
  JobSpec spec = Job(20);
  for (const std::string& path : {directory_ + "/not/there", std::string("/dev/null")}) {
    spec.mutable_checkpoints()->set_directory(path);
    const auto refused = cluster.Submit(spec);
    EXPECT_FALSE(refused.ok()) << path;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("checkpoints.directory: "));
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(path));
  }
}

TEST_F(CheckpointTest, DirectoryOfAnotherRunIsRefused) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  const auto beside = cluster.Submit(Job(20));
  EXPECT_EQ(beside.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(beside.status().message()), HasSubstr("which has not ended"));
  JobSpec same = Job(20);
  same.mutable_checkpoints()->set_directory(directory_ + "/../" +
                                            directory_.substr(directory_.rfind('/') + 1) + "//");
  EXPECT_THAT(cluster.Submit(same).status().ToString(), HasSubstr("which has not ended"));
  gate.Open();
  cluster.AwaitEnd(job);
  const auto after = cluster.Submit(Job(20));
  EXPECT_EQ(after.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(after.status().message()),
              HasSubstr("has checkpoints of job '" + job + "'"));
}

// It was trained to its end, and nothing of that is where its user looks for it.
TEST_F(CheckpointTest, JobWhoseDirectoryAnotherRunHasTakenDoesNotSucceed) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  ASSERT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("other-1").ok());
  gate.Open();
  const JobStatus ended = cluster.AwaitEnd(job);
  EXPECT_EQ(ended.state(), FAILED);
  EXPECT_EQ(ended.step(), 20u);
  EXPECT_EQ(ended.message(),
            "all steps are done, but the last checkpoint is missing: '" + directory_ +
                "' was taken by job 'other-1' (" + directory_ +
                "/owner says so). `millrace export` has the variables while its servers run");
  EXPECT_TRUE(cluster.Variables(job).ok());
}

TEST_F(CheckpointTest, WhatAServerLostOfAJobThatHasEndedIsInItsLastCheckpoint) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(Job(20)).value();
  ASSERT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ps(0).Kill();
  cluster.ps(0).ReplaceDisk();
  cluster.ps(0).Start(cluster.address());
  const std::string why(cluster.Variables(job).status().message());
  EXPECT_THAT(why, HasSubstr("start it on its old one, or take its last checkpoint: millrace "
                             "checkpoints export " +
                             directory_ + "/000001"));
  EXPECT_THAT(why, Not(HasSubstr("cancel")));
}

TEST_F(CheckpointTest, CancelledJobIsNotSaved) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Cancel(job).ok());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), CANCELLED);
  gate.Open();
  EXPECT_THAT(Manifests(), IsEmpty());
  EXPECT_EQ(cluster.Checkpoint(job, false).status().code(), absl::StatusCode::kFailedPrecondition);
}

// An old one was returned, as if it were that of the end.
TEST_F(CheckpointTest, CancelledJobHasNoneOfItsEnd) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job(20)).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  ASSERT_TRUE(cluster.Cancel(job).ok());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), CANCELLED);
  gate.Open();
  for (const bool wait : {false, true}) {
    const auto refused = cluster.Checkpoint(job, wait);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("is CANCELLED at step 10; its newest checkpoint is 000001 of step 10"));
  }
}

}  // namespace
}  // namespace millrace::coordinator
