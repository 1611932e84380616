#include "coordinator/checkpoint/checkpoint_finder.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::FaultFileSystem;
using ::testing::HasSubstr;

class CheckpointFinderTest : public CheckpointerTest {
 protected:
  CheckpointFinderTest() {
    spec_.set_steps(kSavedSteps);
    spec_.mutable_restore()->set_directory(directory_);
  }

  void WriteAt(uint64_t step) {
    At(step);
    Request();
    WriteOne();
  }
};

// Where nothing was written that is so; otherwise it is not mounted.
TEST_F(CheckpointFinderTest, DirectoryThatIsNotThereHasNoneUnlessOneWasWritten) {
  const auto none = FindCheckpoint(RealFileSystem(), directory_, kSavedJob, /*written=*/0, {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->checkpoint);
  EXPECT_THAT(none->why_none, HasSubstr("has written no checkpoint yet in " + directory_));
  const auto find = [&] {
    return FindCheckpoint(RealFileSystem(), directory_, kSavedJob, /*written=*/3, {}).status();
  };
  EXPECT_TRUE(absl::IsUnavailable(find())) << find();
  std::filesystem::create_directory(directory_);
  EXPECT_TRUE(absl::IsUnavailable(find())) << find();
}

TEST_F(CheckpointFinderTest, DirectoryThatCannotBeReadIsNoEmptyOne) {
  std::filesystem::create_directory(directory_);
  const auto files = std::make_shared<FaultFileSystem>();
  files->ArmRead(0);
  const auto found = FindCheckpoint(files, directory_, kSavedJob, /*written=*/0, {});
  EXPECT_TRUE(absl::IsUnavailable(found.status())) << found.status();
}

// An older one would do, and steps would be run again for nothing.
TEST_F(CheckpointFinderTest, CheckpointThatCannotBeReadForAMomentIsNotDamaged) {
  OpenIdle();
  WriteAt(10);
  WriteAt(20);
  bool fired = true;
  int failed = 0;
  for (uint64_t read = 0; fired; ++read) {
    SCOPED_TRACE(absl::StrCat("read ", read));
    const auto files = std::make_shared<FaultFileSystem>();
    files->ArmRead(read);
    const auto found = FindCheckpoint(files, directory_, kSavedJob, /*written=*/2, {});
    fired = files->fired();
    if (!found.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(found.status())) << found.status();
      ++failed;
      continue;
    }
    ASSERT_TRUE(found->checkpoint);
    EXPECT_EQ(found->checkpoint->checkpoint(), 2u);
    EXPECT_TRUE(found->damaged.empty());
  }
  EXPECT_GE(failed, 2);
}

TEST_F(CheckpointFinderTest, OneIsRemovedWhereItIsGoneOrAnotherHasItsNumber) {
  OpenIdle();
  WriteAt(10);
  WriteAt(20);
  ShardRestore reference =
      *FindCheckpoint(RealFileSystem(), directory_, kSavedJob, /*written=*/2, {})->checkpoint;
  EXPECT_FALSE(IsRemoved(RealFileSystem(), reference));
  const auto files = std::make_shared<FaultFileSystem>();
  files->ArmRead(0);
  EXPECT_FALSE(IsRemoved(files, reference)) << "nobody knows";
  reference.set_manifest_checksum("of another");
  EXPECT_TRUE(IsRemoved(RealFileSystem(), reference));
  reference.set_checkpoint(3);
  EXPECT_TRUE(IsRemoved(RealFileSystem(), reference));
}

TEST_F(CheckpointFinderTest, CheckpointsOfOtherJobsAndDamagedOnesAreNotFound) {
  shards_.job_id = owner_.job_id = "j-0";
  OpenIdle();
  WriteAt(40);
  shards_.job_id = owner_.job_id = kSavedJob;
  owner_.earlier_job_ids = {"j-0"};
  OpenIdle();
  WriteAt(10);
  WriteAt(20);
  const auto find = [&](const std::set<uint64_t>& damaged) {
    return FindCheckpoint(RealFileSystem(), directory_, kSavedJob, /*written=*/3, damaged).value();
  };
  EXPECT_EQ(find({}).checkpoint->checkpoint(), 3u);
  EXPECT_EQ(find({}).step, 20u);
  EXPECT_EQ(find({3}).checkpoint->checkpoint(), 2u);
  EXPECT_FALSE(find({2, 3}).checkpoint);
  EXPECT_EQ(find({2, 3}).why_none, "there is no other checkpoint of the job in " + directory_);
}

// It went on as if an earlier one were the best, and removed the better one.
TEST_F(CheckpointFinderTest, BestThatWasSavedAfterTheCheckpointOfALaterStateIsGoneOnFrom) {
  const auto best_at = [](uint64_t step) {
    BestEvaluation best;
    best.set_step(step);
    best.set_metric("eval_loss");
    return best;
  };
  const auto save_best = [&](uint64_t step) {
    At(step);
    checkpointer_->SaveBest(best_at(step), "evaluation");
    WriteOne();
    best_ = best_at(step);
    *best_.mutable_checkpoint() = checkpointer_->TakeBest()->value();
  };
  spec_.mutable_evaluation()->mutable_keep_best();
  spec_.mutable_checkpoints()->set_keep(10);
  OpenIdle();
  save_best(10);
  WriteAt(30);
  save_best(20);
  save_best(40);
  ASSERT_EQ(Manifest(2).best().step(), 10u);
  spec_.mutable_restore()->set_checkpoint(2);
  const auto found = FindRestore(RealFileSystem(), spec_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->from.step(), 30u);
  EXPECT_EQ(found->from.best().step(), 20u);
  EXPECT_EQ(found->from.best().checkpoint().number(), 3u);
  // That of step 40 is not of what led up to it.
  std::filesystem::remove_all(directory_ + "/000003");
  const auto without = FindRestore(RealFileSystem(), spec_);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->from.best().step(), 10u);
}

}  // namespace
}  // namespace millrace::coordinator
