// Jobs of several coordinators, as of several clusters, that name one directory of checkpoints.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HeldDirectoryTest : public testing::Test {
 protected:
  HeldDirectoryTest()
      : held_(absl::StrCat(testing::TempDir(), "/held-", getpid(), "-",
                           testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(held_);
  }
  ~HeldDirectoryTest() override { std::filesystem::remove_all(held_); }

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

  const std::string held_;
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

TEST_F(HeldDirectoryTest, RestartedCoordinatorHoldsTheDirectoriesOfItsJobsAgain) {
  CoordinatorOptions one_at_a_time;
  one_at_a_time.max_running_jobs = 1;
  Gate gate;
  FakeCluster cluster(1, one_at_a_time);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  FakeCluster other(1);
  const std::string before = cluster.Submit(PlainJob(20)).value();
  const std::string job = cluster.Submit(Job("first")).value();  // It waits for its turn.
  gate.AwaitSomebody();
  ExpectHeldBy(other.Submit(Job("second")).status(), "job 'first");
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  ExpectHeldBy(other.Submit(Job("second")).status(), "job '" + job + "'");
  gate.Open();
}

}  // namespace
}  // namespace millrace::coordinator
