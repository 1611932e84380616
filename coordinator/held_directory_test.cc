// Jobs of several coordinators, as of several clusters, that name one directory of checkpoints.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/net/channel.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Once it is told to, it counts who looks whether a file is there, or into a directory, and lets
// nobody see what is in one until its gate is open.
class StandingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  StandingFileSystem() : rocksdb::FileSystemWrapper(RealFileSystem()) {}
  const char* Name() const override { return "StandingFileSystem"; }
  rocksdb::IOStatus FileExists(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    looks_ += stands_ ? 1 : 0;
    return FileSystemWrapper::FileExists(path, options, debug);
  }
  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* children,
                                rocksdb::IODebugContext* debug) override {
    looks_ += stands_ ? 1 : 0;
    if (stands_) gate.Pass();
    return FileSystemWrapper::GetChildren(path, options, children, debug);
  }
  void Stand() { stands_ = true; }
  int looks() const { return looks_; }
  Gate gate;

 private:
  std::atomic<bool> stands_{false};
  std::atomic<int> looks_{0};
};

CoordinatorOptions OneJobRunning() {
  CoordinatorOptions options;
  options.max_running_jobs = 1;
  return options;
}

class HeldDirectoryTest : public ::testing::Test {
 protected:
  JobSpec Job(const std::string& name) const {
    JobSpec spec = PlainJob(20);
    spec.set_name(name);
    spec.mutable_checkpoints()->set_directory(held_);
    return spec;
  }
  // Of a job that somebody else's directory refuses.
  void ExpectHeldBy(const absl::Status& refused, const std::string& who) const {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("'" + held_ + "' is held by " + who), HasSubstr("name another")));
  }

  const std::string held_ = TestDirectory("held");
};

// Both were taken, and the loser heard of it at its first checkpoint.
TEST_F(HeldDirectoryTest, JobOfAnotherCoordinatorIsRefusedWhenItIsSubmittedAndNamesTheHolder) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  FakeCluster other(1);
  const std::string job = cluster.Submit(Job("first")).value();
  ExpectHeldBy(other.Submit(Job("second")).status(), "job 'first");
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  ExpectHeldBy(other.Submit(Job("second")).status(), "job '" + job + "' of process ");
  JobSpec going_on = Job("second");
  going_on.mutable_restore()->set_directory(held_);
  ExpectHeldBy(other.Submit(going_on).status(), "job '" + job + "'");
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  other.StartPs();
  other.AddWorker();
  going_on.set_steps(30);
  const auto next = other.Submit(going_on);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(other.AwaitEnd(*next).checkpoint().step(), 30u);
}

TEST_F(HeldDirectoryTest, WhoReadsADirectoryNeedsNoHoldOnIt) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job("first")).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Checkpoint(job, /*wait=*/true).ok());
  FakeCluster other(1);
  other.StartPs();
  other.AddWorker();
  JobSpec elsewhere = PlainJob(20);
  elsewhere.mutable_restore()->set_directory(held_);
  const auto reader = other.Submit(elsewhere);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(other.AwaitEnd(*reader).state(), SUCCEEDED);
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST_F(HeldDirectoryTest, JobThatWasRefusedOrCancelledHoldsNothing) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript script = WaitingAt(10, &gate);
  cluster.AddWorker(script);
  JobSpec bad = Job("bad");
  bad.mutable_warm_start()->set_path("/no/such/file.safetensors");
  ASSERT_FALSE(cluster.Submit(bad).ok());
  EXPECT_FALSE(std::filesystem::exists(held_));
  const std::string job = cluster.Submit(Job("first")).value();
  gate.AwaitSomebody();
  ASSERT_TRUE(cluster.Cancel(job).ok());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), CANCELLED);
  gate.Open();
  FakeCluster other(1);
  EXPECT_TRUE(other.Submit(Job("second")).ok());
}

// Each kept a file open, and thousands may wait.
TEST_F(HeldDirectoryTest, JobThatWaitsForItsTurnHoldsItsDirectoryWhenThatComes) {
  Gate gate;
  FakeCluster cluster(1, OneJobRunning());
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string before = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  const std::string job = cluster.Submit(Job("first")).value();
  EXPECT_FALSE(std::filesystem::exists(held_));
  EXPECT_THAT(std::string(cluster.Submit(Job("second")).status().message()),
              HasSubstr("is that of job '" + job + "', which has not ended"));
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).checkpoint().step(), 20u);
}

TEST_F(HeldDirectoryTest, RestartedCoordinatorHoldsTheDirectoriesOfItsRunningJobsAgain) {
  Gate gate;
  Gate again;
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job("first")).value();
  gate.AwaitSomebody();
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  cluster.AddWorker(WaitingAt(12, &again));
  again.AwaitSomebody();
  FakeCluster other(1);
  ExpectHeldBy(other.Submit(Job("second")).status(), "job '" + job + "'");
  gate.Open();
  again.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// A thread was started for each, and the coordinator was gone where there were too many.
TEST_F(HeldDirectoryTest, StartLooksIntoNoDirectoryOfAJobThatWaitsForItsTurn) {
  const auto files = std::make_shared<StandingFileSystem>();
  CoordinatorOptions options = OneJobRunning();
  options.checkpoint_file_system = files;
  Gate gate;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  ASSERT_TRUE(cluster.Submit(PlainJob(20)).ok());
  gate.AwaitSomebody();
  for (int i = 0; i < 20; ++i) {
    JobSpec waiting = Job("waiting");
    waiting.mutable_checkpoints()->set_directory(absl::StrCat(held_, "-", i));
    ASSERT_TRUE(cluster.Submit(waiting).ok());
  }
  cluster.StopCoordinator();
  files->Stand();
  cluster.StartCoordinator();
  EXPECT_EQ(files->looks(), 0);
  files->gate.Open();
  gate.Open();
}

// The client's next try was refused for good, since the one before had the directory.
TEST_F(HeldDirectoryTest, SubmissionThatWasLeftBehindInADirectoryThatHangsDelaysTheNextOnly) {
  const auto files = std::make_shared<StandingFileSystem>();
  CoordinatorOptions options;
  options.checkpoint_file_system = files;
  FakeCluster cluster(1, options);
  std::filesystem::create_directory(held_);
  files->Stand();
  grpc::ClientContext context;
  std::thread hasty([&] {
    SubmitJobRequest request;
    *request.mutable_spec() = Job("first");
    SubmitJobResponse response;
    const auto jobs = Jobs::NewStub(CreateChannel(cluster.address()));
    EXPECT_FALSE(jobs->SubmitJob(&context, request, &response).ok());
  });
  files->gate.AwaitSomebody();
  context.TryCancel();
  hasty.join();
  const auto submit_unless = [&](const std::string& why) {
    absl::Status status;
    do {
      status = cluster.Submit(Job("first")).status();
    } while (absl::StrContains(status.message(), why));
    return status;
  };
  const absl::Status refused = submit_unless("is that of a job that is being submitted");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("' does not answer"));
  files->gate.Open();
  const absl::Status taken = submit_unless("does not answer");
  EXPECT_TRUE(taken.ok()) << taken;
}

// Another job took it, and the coordinator's next life went on with this one.
TEST_F(HeldDirectoryTest, JobWhoseEndIsNotInTheJournalYetHoldsItsDirectory) {
  const auto journal = std::make_shared<FaultFileSystem>();
  CoordinatorOptions options;
  options.file_system = journal;
  Gate gate;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(Job("first")).value();
  gate.AwaitSomebody();
  journal->Arm(0, Fault::kFull);
  gate.Open();
  cluster.AwaitNotice(job, "waits for the coordinator's journal");
  FakeCluster other(1);
  ExpectHeldBy(other.Submit(Job("second")).status(), "job '" + job + "'");
  journal->Heal();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_FALSE(std::filesystem::exists(held_ + "/held-by"));
}

}  // namespace
}  // namespace millrace::coordinator
