#include "client/commands/beginning.h"

#include <filesystem>
#include <string>
#include <vector>

#include "client/commands/load_job.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "common/job_spec.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/checkpoint_finder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::FlipByte;
using ::millrace::testing::FlipLastByte;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallCheckpoint;
using ::millrace::testing::WriteSmallCheckpoint;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BeginningTest : public ::testing::Test {
 protected:
  BeginningTest() : directory_(NoDirectory("begun")) {
    spec_ = *ParseJobSpec(millrace::testing::SmallJob(), "small");
    spec_.mutable_data()->set_directory("/data");
    spec_.mutable_checkpoints()->set_directory(directory_);
    checkpoint_.spec = spec_;
  }

  void WriteAtStep(uint64_t step) {
    checkpoint_.step = step;
    WriteSmallCheckpoint(directory_, checkpoint_);
  }

  absl::StatusOr<Beginning> Find() { return FindBeginning(spec_, reading_); }

  const std::string directory_;
  Interrupt interrupt_;
  std::vector<std::string> told_;
  const Reading reading_ = {&interrupt_,
                            [this](const std::string& message) { told_.push_back(message); }};
  JobSpec spec_;
  SmallCheckpoint checkpoint_;
};

TEST_F(BeginningTest, WithoutCheckpointsAJobBeginsAsItSays) {
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_FALSE(beginning->spec.has_restore());
  EXPECT_THAT(beginning->notes, IsEmpty());
}

// That of the best evaluation may be written after one of a later state.
TEST_F(BeginningTest, AJobGoesOnFromItsFurthestCheckpointWhereTheNewestIsOfAnEarlierStep) {
  WriteAtStep(9);
  WriteAtStep(7);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 1u);
  EXPECT_THAT(beginning->notes, ElementsAre(HasSubstr("Goes on at step 9")));
}

// A job that was killed before its next checkpoint had no best state any more.
TEST_F(BeginningTest, ABestStateThatWasWrittenAfterAFurtherOneIsStillTheBest) {
  spec_.mutable_evaluation()->mutable_keep_best();
  checkpoint_.spec = spec_;
  WriteAtStep(9);
  checkpoint_.best = 2;
  WriteAtStep(3);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  ASSERT_EQ(beginning->spec.restore().checkpoint(), 1u);
  const auto found = coordinator::FindRestore(RealFileSystem(), beginning->spec);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->from.step(), 9u);
  EXPECT_EQ(found->from.best().step(), 3u);
  EXPECT_EQ(found->from.best().checkpoint().number(), 2u);
}

TEST_F(BeginningTest, AJobGoesOnFromItsNewestCheckpoint) {
  WriteAtStep(5);
  WriteAtStep(7);
  spec_.mutable_warm_start()->set_path("/elsewhere");
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->spec.restore().directory(), directory_);
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 2u);
  EXPECT_FALSE(beginning->spec.has_warm_start());
  EXPECT_EQ(beginning->ended, nullptr);
  EXPECT_THAT(beginning->notes,
              ElementsAre("Goes on at step 7 from checkpoint 000002 in " + directory_ + "."));
}

TEST_F(BeginningTest, ADamagedCheckpointIsPassedOver) {
  WriteAtStep(5);
  WriteAtStep(7);
  FlipByte(directory_ + "/000002/manifest.json", 60);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 1u);
  EXPECT_THAT(told_, ElementsAre(AllOf(HasSubstr("000002/manifest.json"),
                                       HasSubstr("The one before is taken"))));
  EXPECT_THAT(beginning->notes, ElementsAre(HasSubstr("Goes on at step 5")));
  FlipByte(directory_ + "/000001/manifest.json", 60);
  const absl::Status status = Find().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("no checkpoint in " + directory_ + " is whole"));
}

// Its ps servers found it when the job had begun, and the same command failed each time.
TEST_F(BeginningTest, ACheckpointWithDamagedValuesIsPassedOver) {
  WriteAtStep(5);
  checkpoint_.variables[0].momentum[1] = 4;
  WriteAtStep(7);
  FlipLastByte(directory_ + "/000002/shard-00000.safetensors");
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 1u);
  EXPECT_THAT(told_, ElementsAre(AllOf(HasSubstr("Checkpoint 000002 cannot be used: "),
                                       ContainsRegex("000002/shard-00000.safetensors.* byte"))));
  EXPECT_THAT(beginning->notes, ElementsAre(HasSubstr("Goes on at step 5")));

  told_.clear();
  Flags flags;
  flags.restore = directory_;
  const auto spec = LoadJob(flags, reading_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->restore().checkpoint(), 1u);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("Checkpoint 000002 cannot be used: ")));

  interrupt_.Trigger();
  EXPECT_TRUE(absl::IsCancelled(Find().status()));
}

// It was said to have succeeded, with the metrics of an earlier evaluation.
TEST_F(BeginningTest, AJobThatWasStoppedInItsLastEvaluationHasNotEnded) {
  WriteAtStep(15);  // 3 epochs of 40 examples, 8 at a time.
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->ended, nullptr);
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 1u);
  EXPECT_THAT(beginning->notes, ElementsAre(HasSubstr("Goes on at step 15")));
}

TEST_F(BeginningTest, AJobOfWhichNothingIsLeftHasEnded) {
  checkpoint_.ended = true;
  WriteAtStep(15);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  ASSERT_NE(beginning->ended, nullptr);
  EXPECT_THAT(beginning->notes, ElementsAre(HasSubstr("has all of its 15 steps")));
  spec_.set_epochs(4);
  const auto longer = Find();
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->ended, nullptr);
  EXPECT_EQ(longer->spec.restore().checkpoint(), 1u);
}

TEST_F(BeginningTest, AJobThatWasStoppedEarlyHasEndedUnlessMoreIsAsked) {
  checkpoint_.ended = true;
  checkpoint_.stopped_early_of = 15;
  WriteAtStep(10);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  ASSERT_NE(beginning->ended, nullptr);
  EXPECT_THAT(beginning->notes, ElementsAre(HasSubstr("it was stopped early at step 10 of 15: ")));
  JobSpec longer = spec_;
  longer.set_epochs(4);
  EXPECT_EQ(FindBeginning(longer, reading_)->ended, nullptr);
  JobSpec patient = spec_;
  patient.mutable_evaluation()->mutable_early_stopping()->set_patience(9);
  EXPECT_EQ(FindBeginning(patient, reading_)->ended, nullptr);
}

TEST_F(BeginningTest, CheckpointsOfAnotherJobAreRefusedWithWhatDiffers) {
  WriteAtStep(7);
  spec_.set_batch_size(4);
  const absl::Status status = Find().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("batch_size: 4; must be 8"));
  EXPECT_THAT(status.ToString(), HasSubstr("a directory of its own (--checkpoints)"));
}

TEST_F(BeginningTest, ARestoreThatLiesBehindIsNotDoneAgain) {
  SmallCheckpoint first = checkpoint_;
  first.job_id = "small-0-test";
  const std::string elsewhere = NoDirectory("first");
  WriteSmallCheckpoint(elsewhere, first);
  spec_.mutable_restore()->set_directory(elsewhere);
  EXPECT_EQ(Find()->spec.restore().directory(), elsewhere);
  checkpoint_.earlier_job_ids = {"small-0-test"};
  WriteAtStep(9);
  EXPECT_EQ(Find()->spec.restore().directory(), directory_);
}

// It was said to go back, as if that were the earlier state.
TEST_F(BeginningTest, ARestoreOfAnOlderOneThatIsFurtherDoesNotGoBack) {
  WriteAtStep(7);
  WriteAtStep(5);
  spec_.mutable_restore()->set_directory(directory_);
  spec_.mutable_restore()->set_checkpoint(1);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_THAT(beginning->notes,
              ElementsAre(AllOf(HasSubstr("Goes on from checkpoint 000001 in "),
                                HasSubstr("newer ones up to 000002 at step 5 stay"))));
  WriteAtStep(9);
  WriteAtStep(6);
  EXPECT_THAT(Find()->notes,
              ElementsAre(AllOf(HasSubstr("Goes back to checkpoint 000001 in "),
                                HasSubstr("newer ones up to 000004 at step 6 stay"))));
}

TEST_F(BeginningTest, ARestoreOfTheOwnDirectoryIsDoneAsItSays) {
  WriteAtStep(5);
  WriteAtStep(7);
  spec_.mutable_restore()->set_directory(directory_);
  spec_.mutable_restore()->set_checkpoint(1);
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 1u);
  EXPECT_THAT(beginning->notes,
              ElementsAre(AllOf(HasSubstr("Goes back to checkpoint 000001"),
                                HasSubstr("newer ones up to 000002 at step 7 stay there"))));
}

// It went back to that checkpoint each time, and lost what it had done since.
TEST_F(BeginningTest, TheSameRestoreOfTheOwnDirectoryIsNotDoneTwice) {
  WriteAtStep(5);
  WriteAtStep(7);
  spec_.mutable_restore()->set_directory(directory_ + "/");
  spec_.mutable_restore()->set_checkpoint(1);
  checkpoint_.spec = spec_;
  checkpoint_.job_id = "small-2-test";
  checkpoint_.earlier_job_ids = {"small-1-test"};
  WriteAtStep(6);
  const auto second = Find();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->spec.restore().checkpoint(), 3u);
  EXPECT_THAT(second->notes, ElementsAre(HasSubstr("Goes on at step 6 from checkpoint 000003")));
  checkpoint_.spec = second->spec;
  checkpoint_.job_id = "small-3-test";
  checkpoint_.earlier_job_ids = {"small-1-test", "small-2-test"};
  WriteAtStep(8);
  EXPECT_EQ(Find()->spec.restore().checkpoint(), 4u);
  // This was not done before.
  spec_.mutable_restore()->set_checkpoint(2);
  EXPECT_EQ(Find()->spec.restore().checkpoint(), 2u);
  spec_.mutable_restore()->set_checkpoint(1);
  // Those between go with time.
  std::filesystem::remove_all(directory_ + "/000003");
  EXPECT_EQ(Find()->spec.restore().checkpoint(), 4u);
  std::filesystem::remove_all(directory_ + "/000001");
  EXPECT_EQ(Find()->spec.restore().checkpoint(), 4u);
}

// One of the run that it had left was taken.
TEST_F(BeginningTest, InsteadOfADamagedCheckpointOneIsTakenThatLedUpToIt) {
  WriteAtStep(5);
  WriteAtStep(7);
  JobSpec restored = spec_;
  restored.mutable_restore()->set_directory(directory_);
  restored.mutable_restore()->set_checkpoint(1);
  checkpoint_.spec = restored;
  checkpoint_.job_id = "small-2-test";
  checkpoint_.earlier_job_ids = {"small-1-test"};
  checkpoint_.variables[0].momentum[1] = 4;
  WriteAtStep(6);
  FlipLastByte(directory_ + "/000003/shard-00000.safetensors");
  const auto beginning = Find();
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->spec.restore().checkpoint(), 1u);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("Checkpoint 000003 cannot be used: ")));
}

TEST_F(BeginningTest, TheJobOfACheckpointNeedsNoFile) {
  checkpoint_.spec.mutable_restore()->set_directory("/before");
  checkpoint_.spec.mutable_checkpoints()->set_directory("/where/it/was");
  WriteAtStep(7);
  Flags flags;
  flags.restore = directory_ + "/latest";
  flags.set = {"epochs=9"};
  flags.data = "/moved";
  const auto spec = LoadJob(flags, reading_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "small");
  EXPECT_EQ(spec->epochs(), 9u);
  EXPECT_EQ(spec->data().directory(), "/moved");
  EXPECT_EQ(spec->restore().checkpoint(), 1u) << "the one that the job is of";
  for (const std::string& directory :
       {spec->checkpoints().directory(), spec->restore().directory()}) {
    EXPECT_THAT(directory, HasSubstr("/begun"));
  }
}

}  // namespace
}  // namespace millrace::client
