// A job whose coordinator cannot write its journal waits, says so, and goes on; it does not fail.
#include <memory>
#include <string>

#include "coordinator/testing/fake_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;

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

}  // namespace
}  // namespace millrace::coordinator
