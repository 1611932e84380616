// Checkpoints that are damaged, or that their job went back behind.
#include <filesystem>

#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// They were counted, and the last whole one went.
TEST_F(CheckpointerTest, DamagedOnesDoNotCountAmongThoseThatAreKept) {
  spec_.mutable_checkpoints()->set_keep(2);
  OpenIdle();
  for (uint64_t step = 1; step <= 5; ++step) {
    At(step);
    Request();
    WriteOne();
    if (step == 4) {
      EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3, 4));
    }
    if (step != 2 && step != 3) continue;
    std::filesystem::resize_file(directory_ + absl::StrCat("/00000", step, "/shard-00000.json"), 1);
  }
  EXPECT_THAT(Numbers(), ElementsAre(4, 5));
  At(6);
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(5, 6));
}

// People were told that old ones cannot be removed, while they were.
TEST_F(CheckpointerTest, OneWhoseManifestIsDamagedStaysAndTheOthersGoAsBefore) {
  spec_.mutable_checkpoints()->set_keep(2);
  OpenIdle();
  for (uint64_t step = 1; step <= 6; ++step) {
    At(step);
    Request();
    WriteOne();
    if (step == 2) std::filesystem::resize_file(directory_ + "/000002/manifest.json", 10);
  }
  EXPECT_THAT(Numbers(), ElementsAre(2, 5, 6));
  EXPECT_THAT(Folders(), ElementsAre("000001", "000002", "000005", "000006"));
  EXPECT_THAT(checkpointer_->trouble(),
              AllOf(HasSubstr("what cannot be read stays"), HasSubstr("/000002/manifest.json")));
}

// It was referred to by the next one, which was as bad then, and counted among those that are kept.
TEST_F(CheckpointerTest, ADamagedOneThatTheJobWentBehindIsNoBaseAndGoesWithTheNext) {
  spec_.mutable_checkpoints()->set_keep(2);
  OpenIdle();
  for (const uint64_t step : {10, 20, 30}) {
    At(step);
    Request();
    WriteOne();
  }
  EXPECT_THAT(Numbers(), ElementsAre(2, 3));
  checkpointer_->Detach("the data directory of ps-1 is gone");
  Attach(20, /*damaged=*/{3});
  At(30);
  AwaitIdle();
  ASSERT_TRUE(checkpointer_->newest());
  EXPECT_EQ(checkpointer_->newest()->number(), 2u);
  const auto asked = Request();
  AwaitWriting();
  EXPECT_EQ(shards_.request->base(), 2u);
  shards_.Write();
  AwaitIdle();
  EXPECT_EQ((*asked)->value().number(), 4u);
  EXPECT_THAT(Numbers(), ElementsAre(2, 4));
  At(40);
  Request();
  AwaitWriting();
  EXPECT_EQ(shards_.request->base(), 4u);
  shards_.Write();
  AwaitIdle();
  EXPECT_THAT(Numbers(), ElementsAre(4, 5));
}

// It took the number of a damaged one whose folder somebody had removed, and went with its own
// commit.
TEST_F(CheckpointerTest, NumbersOfOnesThatAreGoneAreNotUsedAgain) {
  last_number_ = 2;
  Open();
  Attach(20, /*damaged=*/{1, 3});
  AwaitIdle();
  At(30);
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(4));
  checkpointer_.reset();
  last_number_ = 7;
  OpenIdle();
  At(40);
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(4, 8));
}

// All that the job had gone behind went, also where they were not found to be damaged: they had
// not been seen.
TEST_F(CheckpointerTest, OfThoseThatTheJobWentBehindOnlyDamagedOnesGo) {
  OpenIdle();
  for (const uint64_t step : {10, 20, 30}) {
    At(step);
    Request();
    WriteOne();
  }
  checkpointer_->Detach("the data directory of ps-1 is gone");
  Attach(10, /*damaged=*/{2});
  At(40);
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(1, 3, 4));
}

// They are not the job's to remove, nor is one that may yet be read.
TEST_F(CheckpointerTest, DamagedOnesOfAnEarlierJobAndThoseThatCannotBeReadStay) {
  shards_.job_id = owner_.job_id = "j-0";
  OpenIdle();
  At(40);
  Request();
  WriteOne();
  shards_.job_id = owner_.job_id = kSavedJob;
  owner_.earlier_job_ids = {"j-0"};
  OpenIdle();
  At(20);
  Request();
  WriteOne();
  OpenIdle();
  EXPECT_EQ(checkpointer_->newest()->number(), 2u) << "the other one is no state of the job";
  std::filesystem::resize_file(directory_ + "/000002/manifest.json", 10);
  checkpointer_->Detach("the data directory of ps-1 is gone");
  Attach(10, /*damaged=*/{1, 2});
  AwaitIdle();
  At(30);
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
}

TEST_F(CheckpointerTest, ThatTheNewestCannotBeReadIsToldByTheNextLifeOfTheCoordinator) {
  OpenIdle();
  for (const uint64_t step : {10, 20, 30}) {
    At(step);
    Request();
    WriteOne();
  }
  std::filesystem::resize_file(directory_ + "/000003/manifest.json", 10);
  OpenIdle();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("/000003/manifest.json"));
  EXPECT_EQ(checkpointer_->newest()->number(), 2u);
}

// The restarted coordinator took the damaged one for the newest state, and saved nothing before
// the job was past it.
TEST_F(CheckpointerTest, ADamagedOneIsNoStateOfTheJobInALaterLifeOfTheCoordinator) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  for (const uint64_t version : {10, 20}) {
    AtVersion(version, {version});
    Request();
    WriteCut(version);
  }
  newest_ = *checkpointer_->newest();
  EXPECT_EQ(newest_.step(), 40u);
  Open();
  Attach(30, /*damaged=*/{2});
  EXPECT_FALSE(checkpointer_->newest());
  AwaitIdle();
  EXPECT_EQ(checkpointer_->newest()->number(), 1u);
  AtVersion(15, {15});
  const auto asked = Request();
  WriteCut(15);
  EXPECT_EQ((*asked)->value().number(), 3u);
  EXPECT_THAT(Numbers(), ElementsAre(1, 3));
}

// They were counted among the newest, and what the job went on from was removed for them.
TEST_F(CheckpointerTest, WhatAJobWentBackBehindDoesNotCount) {
  OpenIdle();
  for (const uint64_t step : {10, 20, 30}) {
    At(step);
    Request();
    WriteOne();
  }
  owner_ = {.job_id = "j-2", .earlier_job_ids = {kSavedJob}};
  shards_.job_id = "j-2";
  spec_.mutable_restore()->set_directory(directory_);
  spec_.mutable_restore()->set_checkpoint(1);
  restored_.set_directory(directory_);
  restored_.set_number(1);
  restored_.set_step(10);
  At(10);
  OpenIdle();
  const auto write = [this](uint64_t step) {
    At(step);
    Request();
    WriteOne();
  };
  write(15);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3, 4));
  write(25);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3, 4, 5));
  write(35);
  EXPECT_THAT(Numbers(), ElementsAre(4, 5, 6));
}

TEST_F(CheckpointerTest, OneWhoseFilesAreGoneIsNoBase) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  std::filesystem::remove(directory_ + "/000001/shard-00001.json");
  At(20);
  Request();
  AwaitWriting();
  EXPECT_EQ(shards_.request->base(), 0u);
}

}  // namespace
}  // namespace millrace::coordinator
