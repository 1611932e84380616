#include "coordinator/checkpoint/checkpointer.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/proto_duration.h"
#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// The shards have step 12 as well, of another worker.
TEST_F(CheckpointerTest, AStateThatHasMoreStepsThanTheOneThatIsSavedIsSaved) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  situation_.applied = 11;
  const auto asked = Request();
  WriteOne();
  EXPECT_EQ((*asked)->value().number(), 2u);
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

TEST_F(CheckpointerTest, OneOfEachPeriodStaysForEver) {
  spec_.mutable_checkpoints()->set_keep(1);
  spec_.mutable_checkpoints()->mutable_keep_one_every()->set_seconds(20 * 60);
  OpenIdle();
  for (uint64_t step = 1; step <= 5; ++step) {
    At(step);
    clock_.Advance(absl::Minutes(10));
    WriteOne();
  }
  EXPECT_THAT(Numbers(), ElementsAre(1, 3, 5));
}

// Also in the next life of the coordinator, which knows it from the manifest.
TEST_F(CheckpointerTest, OneMayTakeSeveralTimesAsLongAsTheNewestTook) {
  const auto write_for = [this](absl::Duration time) {
    At(situation_.watermark + 10);
    Request();
    AwaitWriting();
    clock_.Advance(time);
    Advance();
    ASSERT_TRUE(shards_.request) << "it was given up";
    shards_.Write();
    AwaitIdle();
  };
  OpenIdle();
  write_for(absl::Minutes(9));
  EXPECT_EQ(FromProto(Manifest(1).took()), absl::Minutes(9));
  EXPECT_GT(checkpointer_->newest()->bytes(), 0u);
  write_for(absl::Minutes(30));
  OpenIdle();
  write_for(absl::Minutes(100));
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
}

// A disk that fails for a moment says nothing of what is on it.
TEST_F(CheckpointerTest, WhereTheDirectoryCannotBeReadTheNewestIsWhatItWas) {
  newest_.set_directory(directory_);
  newest_.set_number(4);
  newest_.set_step(250);
  std::filesystem::create_directory(directory_);
  const auto files = std::make_shared<FaultFileSystem>();
  files->ArmRead(0);
  Open(files);
  AwaitIdle();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("cannot list"));
  ASSERT_TRUE(checkpointer_->newest());
  EXPECT_EQ(checkpointer_->newest()->number(), 4u);
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

// A directory that hung held up the job itself, where the system had no thread for it.
TEST_F(CheckpointerTest, OneForWhichThereIsNoThreadIsGivenUpAndTriedAgain) {
  bool has_threads = true;
  start_thread_ = [&](std::function<void()> run) -> absl::StatusOr<std::thread> {
    if (!has_threads) return absl::ResourceExhaustedError("no memory");
    return std::thread(std::move(run));
  };
  OpenIdle();
  At(10);
  auto asked = Request();
  has_threads = false;
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  ASSERT_TRUE(*asked);
  EXPECT_EQ((*asked)->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("has no thread"));

  has_threads = true;
  asked = Request();
  AwaitWriting();
  has_threads = false;
  shards_.Write();
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("has no thread"));
  EXPECT_THAT(Numbers(), IsEmpty());

  has_threads = true;
  asked = Request();
  WriteOne();
  EXPECT_TRUE((*asked)->ok());
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_THAT(Folders(), ElementsAre("000002"));
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
