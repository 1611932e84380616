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

class JournalTroubleTest : public ::testing::TestWithParam<Fault> {
 protected:
  JournalTroubleTest() : files_(std::make_shared<FaultFileSystem>()) {
    options_.file_system = files_;
  }

  // The next operation of the journal fails, and with a full disk those after it too.
  void Break() { files_->Arm(0, GetParam()); }

  const std::shared_ptr<FaultFileSystem> files_;
  CoordinatorOptions options_;
};

// It ended as FAILED.
TEST_P(JournalTroubleTest, WhileAJobAttaches) {
  FakeCluster cluster(1, options_);
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(5)).value();
  Break();
  cluster.StartPs();
  cluster.AwaitNotice(job, "waits for the coordinator's journal (it cannot be written: ");
  EXPECT_TRUE(files_->fired());
  files_->Heal();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 5);
}

TEST_P(JournalTroubleTest, WhileAJobEnds) {
  FakeCluster cluster(1, options_);
  cluster.StartPs();
  Gate gate;
  cluster.AddWorker(WaitingAt(4, &gate));
  const std::string job = cluster.Submit(PlainJob(5)).value();
  gate.AwaitSomebody();
  Break();
  gate.Open();
  // One error may hit what can be lost, such as the number of the newest event.
  if (GetParam() == Fault::kFull) cluster.AwaitNotice(job, "journal");
  files_->Heal();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_TRUE(files_->fired());
}

INSTANTIATE_TEST_SUITE_P(Faults, JournalTroubleTest,
                         ::testing::Values(Fault::kError, Fault::kFull));

}  // namespace
}  // namespace millrace::coordinator
