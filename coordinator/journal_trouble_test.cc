// A job whose coordinator cannot write its journal waits, says so, and goes on; it does not fail.
// One that is submitted then is not taken.
#include <atomic>
#include <memory>
#include <string>

#include "coordinator/testing/fake_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::HasSubstr;

constexpr char kWaits[] = "waits for the coordinator's journal (it cannot be written: ";

class JournalTroubleTest : public ::testing::Test {
 protected:
  JournalTroubleTest() : files_(std::make_shared<FaultFileSystem>()) {
    options_.file_system = files_;
  }

  const std::shared_ptr<FaultFileSystem> files_;
  CoordinatorOptions options_;
};

// It ended as FAILED.
TEST_F(JournalTroubleTest, WhileAJobAttaches) {
  FakeCluster cluster(1, options_);
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(5)).value();
  files_->Arm(0, Fault::kFull);
  cluster.StartPs();
  cluster.AwaitNotice(job, kWaits);
  files_->Heal();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 5);
}

TEST_F(JournalTroubleTest, WhileAJobEnds) {
  Gate gate;
  FakeCluster cluster(1, options_);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(4, &gate));
  const std::string job = cluster.Submit(PlainJob(5)).value();
  gate.AwaitSomebody();
  files_->Arm(0, Fault::kFull);
  gate.Open();
  cluster.AwaitNotice(job, kWaits);
  files_->Heal();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// Each of a client's attempts was planned, by a worker that opened the data.
TEST_F(JournalTroubleTest, WhileAJobIsSubmittedNoWorkerPlansIt) {
  std::atomic<int> plans{0};
  FakeWorkerScript script;
  script.plan = [&plans](const JobSpec& /*spec*/) {
    ++plans;
    return PlainPlan();
  };
  FakeCluster cluster(1, options_);
  cluster.StartPs();
  cluster.AddWorker(script);
  files_->Arm(0, Fault::kFull);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const absl::Status refused = cluster.Submit(PlainJob(5), "request").status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("No space left on device"));
  }
  EXPECT_EQ(plans, 0);
  files_->Heal();
  std::string job;
  SpinUntil("another look at the disk", [&] {
    job = cluster.Submit(PlainJob(5), "request").value_or("");
    return !job.empty();
  });
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_EQ(plans, 1);
}

}  // namespace
}  // namespace millrace::coordinator
