#include "coordinator/checkpoint/checkpointer.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/proto_duration.h"
#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Calls something right before a manifest gets its name.
class CommittingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit CommittingFileSystem(std::function<void()> before)
      : rocksdb::FileSystemWrapper(RealFileSystem()), before_(std::move(before)) {}
  const char* Name() const override { return "CommittingFileSystem"; }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    if (absl::EndsWith(to, "/manifest.json")) before_();
    return FileSystemWrapper::RenameFile(from, to, options, debug);
  }

 private:
  const std::function<void()> before_;
};

// Does not answer while its gate is shut.
class HangingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  HangingFileSystem() : rocksdb::FileSystemWrapper(RealFileSystem()) {}
  const char* Name() const override { return "HangingFileSystem"; }
  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* children,
                                rocksdb::IODebugContext* debug) override {
    gate.Pass();
    return FileSystemWrapper::GetChildren(path, options, children, debug);
  }
  Gate gate;
};

TEST_F(CheckpointerTest, OneThatIsDueIsWrittenAndTold) {
  OpenIdle();
  At(17);
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  EXPECT_EQ(shards_.request->generation(), 3u);
  EXPECT_EQ(shards_.request->directory(), directory_);
  EXPECT_EQ(shards_.request->state_case(), WriteCheckpointRequest::STATE_NOT_SET);
  clock_.Advance(absl::Seconds(5));
  shards_.Write();
  AwaitIdle();
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].number(), 1u);
  EXPECT_EQ(ended[0].cause(), "every 10m");
  EXPECT_EQ(ended[0].error(), "");
  EXPECT_EQ(ended[0].step(), 17u);
  EXPECT_TRUE(ended[0].exact());
  EXPECT_GT(ended[0].bytes(), 0u);
  EXPECT_EQ(ended[0].extra_memory(), 2u);
  EXPECT_EQ(FromProto(ended[0].took()), absl::Seconds(5));
  EXPECT_EQ(ended[0].path(), directory_ + "/000001");
  EXPECT_EQ(checkpointer_->newest()->number(), 1u);
  EXPECT_EQ(checkpointer_->newest()->step(), 17u);
  const CheckpointManifest manifest = Manifest(1);
  EXPECT_EQ(manifest.job_id(), kSavedJob);
  EXPECT_EQ(manifest.plan().train_examples(), 7u);
  EXPECT_EQ(manifest.step(), 17u);
  EXPECT_THAT(manifest.shards(), SizeIs(2));
}

TEST_F(CheckpointerTest, TheNextOneRefersToTheOneBefore) {
  OpenIdle();
  for (const uint64_t step : {10, 20}) {
    At(step);
    clock_.Advance(absl::Minutes(10));
    AwaitWriting();
    EXPECT_EQ(shards_.request->base(), step == 10 ? 0u : 1u);
    shards_.Write();
    AwaitIdle();
  }
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

TEST_F(CheckpointerTest, AStateThatIsSavedIsNotSavedAgain) {
  OpenIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  WriteOne();
  clock_.Advance(absl::Hours(10));
  const auto asked = Request();
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_EQ((*asked)->value().number(), 1u);
}

TEST_F(CheckpointerTest, OldOnesGo) {
  spec_.mutable_checkpoints()->set_keep(2);
  OpenIdle();
  for (uint64_t step = 1; step <= 4; ++step) {
    At(step);
    clock_.Advance(absl::Minutes(10));
    WriteOne();
  }
  EXPECT_THAT(Numbers(), ElementsAre(3, 4));
}

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

TEST_F(CheckpointerTest, OneThatAShardCannotWriteIsGivenUpAndLeavesNothing) {
  OpenIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  ASSERT_TRUE(WriteFakeShard(*shards_.request, SpecOf(0), shards_.states[0]).ok());
  shards_.End(absl::UnavailableError("ps-1: no space on the disk"));
  AwaitIdle();
  EXPECT_THAT(FilesOf("000001"), ElementsAre("being-removed"));
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].error(), "ps-1: no space on the disk");
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("no space"));
  EXPECT_FALSE(checkpointer_->newest());

  At(20);
  clock_.Advance(absl::Minutes(9));
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  clock_.Advance(absl::Minutes(1));
  WriteOne();
  EXPECT_EQ(checkpointer_->trouble(), "");
  EXPECT_THAT(Numbers(), ElementsAre(2));
}

TEST_F(CheckpointerTest, AManifestThatCannotBeWrittenIsNoCheckpoint) {
  const auto faults = std::make_shared<FaultFileSystem>();
  Open(faults);
  AwaitIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  faults->Arm(0, Fault::kFull);
  shards_.Write();
  AwaitIdle();
  EXPECT_TRUE(faults->fired());
  EXPECT_THAT(Numbers(), IsEmpty());
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("manifest"));
  faults->Heal();
  At(20);
  clock_.Advance(absl::Minutes(10));
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_THAT(Folders(), ElementsAre("000002"));
}

TEST_F(CheckpointerTest, AnswersOfAnotherStateAreNoCheckpoint) {
  OpenIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  std::vector<WriteCheckpointResponse> answers(2);
  shards_.End(answers);
  AwaitIdle();
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("shard 1 was asked"));
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(CheckpointerTest, ShardsThatGoWhileTheyWriteEndIt) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  checkpointer_->Detach("ps-1 went");
  checkpointer_->TellRequests();
  EXPECT_EQ(shards_.cancelled, 1);
  ASSERT_TRUE(asked->has_value());
  EXPECT_EQ((*asked)->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("ps-1 went"));
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "ps-1 went");
  Attach(10);
  AwaitIdle();
  EXPECT_THAT(Numbers(), IsEmpty());
}

// A server that does not hear of it in time may still write to one that was given up.
TEST_F(CheckpointerTest, NumberOfOneThatWasGivenUpIsNotGivenToAnother) {
  OpenIdle();
  At(10);
  Request();
  AwaitWriting();
  const WriteCheckpointRequest late = *shards_.request;
  shards_.End(absl::UnavailableError("ps-1 went"));
  AwaitIdle();
  // Another life of the coordinator, of which the journal knows nothing.
  OpenIdle();
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(2));
  ASSERT_FALSE(WriteFakeShard(late, SpecOf(0), shards_.states[0]).ok());
  EXPECT_TRUE(Checkpoint::Open(RealFileSystem(), directory_, 2).ok());
}

TEST_F(CheckpointerTest, ShardsThatGoWhileTheFolderIsMadeEndIt) {
  const auto hanging = std::make_shared<HangingFileSystem>();
  Open(hanging);
  hanging->gate.Open();
  AwaitIdle();
  At(10);
  Request();
  Advance();
  checkpointer_->Detach("ps-1 went");
  checkpointer_->TellRequests();
  Attach(10);
  AwaitIdle();
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "ps-1 went");
  EXPECT_FALSE(shards_.request);
}

TEST_F(CheckpointerTest, WhatAllShardsHaveWrittenCountsWhateverBecomesOfThem) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  shards_.Write();
  Advance();
  checkpointer_->Detach("ps-1 went");
  checkpointer_->TellRequests();
  Attach(10);
  AwaitIdle();
  EXPECT_EQ((*asked)->value().number(), 1u);
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(CheckpointerTest, RequestsJoinUntilOneIsUnderWay) {
  OpenIdle();
  At(10);
  const auto first = Request();
  const auto second = Request("ps-1 stops");
  AwaitWriting();
  const auto third = Request();
  Advance();
  shards_.Write();
  At(20);
  AwaitWriting();
  EXPECT_EQ((*first)->value().number(), 1u);
  EXPECT_EQ((*second)->value().number(), 1u);
  EXPECT_FALSE(third->has_value());
  shards_.Write();
  AwaitIdle();
  EXPECT_EQ((*third)->value().number(), 2u);
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  ASSERT_THAT(ended, SizeIs(2));
  EXPECT_EQ(ended[0].cause(), "a client asked for it");
}

TEST_F(CheckpointerTest, ADirectoryThatDoesNotAnswerHoldsUpNobody) {
  const auto hanging = std::make_shared<HangingFileSystem>();
  std::filesystem::create_directory(directory_);
  Open(hanging);
  At(10);
  const auto asked = Request();
  Advance();
  hanging->gate.AwaitSomebody();
  clock_.Advance(absl::Minutes(2));
  Advance();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr(directory_ + " does not answer"));
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  clock_.Advance(absl::Minutes(2));
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("does not answer"));
  checkpointer_->Close(absl::UnavailableError("the job ends"));
  checkpointer_->TellRequests();
  EXPECT_FALSE((*asked)->ok());
  checkpointer_.reset();
  hanging->gate.Open();
}

TEST_F(CheckpointerTest, WhatAnEarlierLifeOfTheCoordinatorLeftIsCollected) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  At(20);
  Request();
  AwaitWriting();
  ASSERT_TRUE(WriteFakeShard(*shards_.request, SpecOf(0), shards_.states[0]).ok());
  // Killed.
  shards_.request.reset();
  ASSERT_THAT(Folders(), ElementsAre("000001", "000002"));
  OpenIdle();
  EXPECT_THAT(FilesOf("000002"), ElementsAre("being-removed"));
  EXPECT_THAT(Numbers(), ElementsAre(1));
  ASSERT_TRUE(checkpointer_->newest());
  EXPECT_EQ(checkpointer_->newest()->step(), 10u);
}

TEST_F(CheckpointerTest, ADirectoryThatBecameAnotherRunsIsLeftAlone) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  owner_.job_id = "j-2";
  OpenIdle();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("has checkpoints of job 'j-1'"));
  At(20);
  const auto asked = Request();
  AwaitIdle();
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("two runs must not share one"));
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("has checkpoints of job 'j-1'"));
  EXPECT_THAT(Numbers(), ElementsAre(1));

  owner_.earlier_job_ids = {kSavedJob};
  OpenIdle();
  Request();
  AwaitWriting();
  EXPECT_EQ(shards_.request->checkpoint(), 2u);
  EXPECT_EQ(shards_.request->base(), 0u);
}

// Of another cluster, say, which knows nothing of this job.
TEST_F(CheckpointerTest, ADirectoryThatAnotherJobHasTakenIsLeftAlone) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  shards_.Write();
  const CheckpointFiles other(RealFileSystem(), spec_.checkpoints(), {"j-2", {}});
  const auto begun = other.Begin(1, 2, /*is_first=*/true, {});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->number, 2u);
  AwaitIdle();
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("was taken by job 'j-2'"));
  EXPECT_THAT(Numbers(), IsEmpty());
  const auto again = Request();
  AwaitIdle();
  EXPECT_THAT(std::string((*again)->status().message()), HasSubstr("was taken by job 'j-2'"));
  EXPECT_THAT(Folders(), ElementsAre("000002"));
}

// It was told as written, and the other one may have taken its files for garbage.
TEST_F(CheckpointerTest, OneIsGivenUpWhenTheDirectoryIsTakenWhileItIsCommitted) {
  Open(std::make_shared<CommittingFileSystem>([this] {
    EXPECT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
  }));
  AwaitIdle();
  At(10);
  const auto asked = Request();
  WriteOne();
  ASSERT_TRUE(asked->has_value());
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("was taken by job 'j-2'"));
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(CheckpointerTest, GivingOneUpTouchesNothingOfAnotherJob) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  const CheckpointFiles late(RealFileSystem(), spec_.checkpoints(), {"j-0", {}});
  EXPECT_EQ(late.GiveUp(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Numbers(), ElementsAre(1));
  At(20);
  Request();
  AwaitWriting();
  ASSERT_TRUE(WriteFakeShard(*shards_.request, SpecOf(0), shards_.states[0]).ok());
  const std::vector<std::string> written = FilesOf("000002");
  EXPECT_THAT(written, SizeIs(2));
  EXPECT_TRUE(late.GiveUp(3).ok());
  EXPECT_EQ(FilesOf("000002"), written);
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

TEST_F(CheckpointerTest, ShardsThatHangAreToldOfAndGivenUp) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  clock_.Advance(absl::Minutes(6));
  Advance();
  EXPECT_THAT(checkpointer_->trouble(),
              HasSubstr(directory_ + "/000001 has been written for 6m; it waits for ps-1"));
  clock_.Advance(absl::Minutes(5));
  AwaitIdle();
  EXPECT_EQ(shards_.cancelled, 1);
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("it waits for ps-1"));
  ASSERT_TRUE(asked->has_value());
  EXPECT_FALSE((*asked)->ok());
  clock_.Advance(absl::Minutes(10));
  WriteOne();
  EXPECT_EQ(checkpointer_->trouble(), "");
}

// Behind a small --checkpoint_bandwidth, say: each one was given up just before its end.
TEST_F(CheckpointerTest, AfterOneThatTookTooLongTheNextHasMoreTime) {
  OpenIdle();
  At(10);
  Request();
  AwaitWriting();
  clock_.Advance(absl::Minutes(11));
  AwaitIdle();
  EXPECT_EQ(shards_.cancelled, 1);
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("; the next one has 22m"));
  const auto asked = Request();
  AwaitWriting();
  clock_.Advance(absl::Minutes(21));
  Advance();
  EXPECT_EQ(shards_.cancelled, 1);
  shards_.Write();
  AwaitIdle();
  EXPECT_TRUE((*asked)->ok());
}

// However slow the disk is, as long as it is not slower than any.
TEST_F(CheckpointerTest, ALargeJobMayWriteForLonger) {
  bytes_ = uint64_t{3600} << 20;
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  clock_.Advance(absl::Minutes(59));
  Advance();
  EXPECT_EQ(shards_.cancelled, 0);
  shards_.Write();
  AwaitIdle();
  EXPECT_TRUE((*asked)->ok());
}

TEST_F(CheckpointerTest, ANewJobIsRefusedADirectoryThatHasCheckpoints) {
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_).ok());
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  const absl::Status refused = CheckNewOwner(RealFileSystem(), spec_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has checkpoints of job 'j-1'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("restore.directory"));
  spec_.mutable_restore()->set_directory(directory_);
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_).ok());
  spec_.mutable_restore()->set_directory(directory_ + "/");
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_).ok());
}

TEST_F(CheckpointerTest, RequestsAreAnsweredWhenTheJobEnds) {
  OpenIdle();
  At(10);
  const auto early = Request();
  AwaitWriting();
  const auto waiting = Request();
  Advance();
  checkpointer_->Close(absl::UnavailableError("the job was cancelled"));
  checkpointer_->TellRequests();
  EXPECT_FALSE((*early)->ok());
  EXPECT_FALSE((*waiting)->ok());
}

}  // namespace
}  // namespace millrace::coordinator
