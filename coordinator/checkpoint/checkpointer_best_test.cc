// The checkpoint of the best evaluation.
#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointerBestTest : public CheckpointerTest {
 protected:
  static BestEvaluation BestAt(uint64_t step) {
    BestEvaluation best;
    best.set_metric("eval_loss");
    best.set_value(0.5);
    best.set_step(step);
    return best;
  }

  // The state that the shards have pinned is that of `step`.
  void WriteBest() {
    AwaitWriting();
    shards_.Write();
    AwaitIdle();
  }
  // Which the job knows of then.
  void KeepBest(uint64_t step) {
    shards_.SetStates(step);
    checkpointer_->SaveBest(BestAt(step), "evaluation");
    WriteBest();
    best_ = BestAt(step);
    *best_.mutable_checkpoint() = checkpointer_->TakeBest()->value();
  }
};

TEST_F(CheckpointerBestTest, ItIsOfWhatIsPinnedForTheEvaluation) {
  OpenIdle();
  At(40);
  EXPECT_FALSE(checkpointer_->TakeBest());
  shards_.SetStates(30);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitWriting();
  EXPECT_FALSE(checkpointer_->TakeBest());
  EXPECT_EQ(shards_.request->cut_id(), "evaluation");
  WriteBest();
  const auto saved = checkpointer_->TakeBest();
  ASSERT_TRUE(saved && saved->ok());
  EXPECT_EQ((*saved)->number(), 1u);
  EXPECT_EQ((*saved)->step(), 30u);
  EXPECT_FALSE(checkpointer_->TakeBest());
  EXPECT_THAT(shards_.unpinned, IsEmpty()) << "that is the evaluation's to do";
  const CheckpointManifest manifest = Manifest(1);
  EXPECT_TRUE(manifest.exact());
  EXPECT_EQ(manifest.best().checkpoint().number(), 1u);
  EXPECT_EQ(manifest.best().value(), 0.5);
  const auto ended = checkpointer_->TakeEnded();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause(), "the best eval_loss so far");
}

TEST_F(CheckpointerBestTest, ItStaysBeyondThoseThatAreKept) {
  spec_.mutable_checkpoints()->set_keep(1);
  spec_.mutable_checkpoints()->set_every_steps(10);
  OpenIdle();
  KeepBest(5);
  for (const uint64_t step : {10, 20, 30}) {
    At(step);
    WriteOne();
  }
  EXPECT_THAT(Numbers(), ElementsAre(1, 4));
  // The one before stays until the job knows of the next one.
  shards_.SetStates(35);
  checkpointer_->SaveBest(BestAt(35), "evaluation");
  WriteBest();
  EXPECT_THAT(Numbers(), ElementsAre(1, 5));
  best_ = BestAt(35);
  *best_.mutable_checkpoint() = checkpointer_->TakeBest()->value();
  At(40);
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(5, 6));
}

TEST_F(CheckpointerBestTest, WhatWaitsForAStateGivesWay) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32});
  const auto asked = Request();
  Advance();
  ASSERT_TRUE(checkpointer_->awaits_cut());
  shards_.SetStates(120, 60, 2);
  checkpointer_->SaveBest(BestAt(120), "evaluation");
  WriteBest();
  EXPECT_TRUE(checkpointer_->TakeBest()->ok());
  EXPECT_EQ((*asked)->value().number(), 1u) << "it has all that there is to save";
}

TEST_F(CheckpointerBestTest, ItIsTriedAgainForAWhile) {
  OpenIdle();
  At(40);
  shards_.SetStates(30);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitWriting();
  shards_.End(absl::UnavailableError("no space on the disk"));
  AwaitIdle();
  EXPECT_FALSE(checkpointer_->TakeBest());
  clock_.Advance(absl::Seconds(20));
  WriteBest();
  EXPECT_EQ(checkpointer_->TakeBest()->value().step(), 30u);
}

// Training waits for it.
TEST_F(CheckpointerBestTest, ItIsNotTriedAgainInADirectoryOfAnotherRun) {
  OpenIdle();
  KeepBest(5);
  ASSERT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
  At(40);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitIdle();
  const auto result = checkpointer_->TakeBest();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(checkpointer_->trouble(),
              AllOf(HasSubstr(directory_), HasSubstr("was taken by job 'j-2'")));
}

TEST_F(CheckpointerBestTest, ThatItIsNotThereAnyMoreIsTold) {
  OpenIdle();
  KeepBest(5);
  At(10);
  Request();
  WriteOne();
  EXPECT_THAT(checkpointer_->trouble(), IsEmpty());
  ASSERT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).Remove(1).ok());
  At(20);
  Request();
  WriteOne();
  EXPECT_THAT(checkpointer_->trouble(),
              HasSubstr("/000001, of the best eval_loss so far, is not there any more"));
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("is not there any more"));
  KeepBest(kSavedSteps);
  EXPECT_THAT(checkpointer_->trouble(), IsEmpty());
}

TEST_F(CheckpointerBestTest, ThatItCannotBeSavedIsToldInTheEnd) {
  OpenIdle();
  At(40);
  shards_.SetStates(30);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  absl::optional<absl::StatusOr<CheckpointInfo>> result;
  for (int tries = 0; tries < 100 && !result; ++tries) {
    AwaitThat([this] { return shards_.request.has_value(); });
    shards_.End(absl::UnavailableError("no space on the disk"));
    AwaitIdle();
    clock_.Advance(absl::Seconds(20));
    result = checkpointer_->TakeBest();
  }
  ASSERT_TRUE(result);
  EXPECT_THAT(std::string(result->status().message()), HasSubstr("no space on the disk"));
}

// Each evaluation that was better waited for a minute.
TEST_F(CheckpointerBestTest, AfterOneThatCannotBeSavedTheNextAreNotTriedForAWhile) {
  OpenIdle();
  At(40);
  absl::optional<absl::StatusOr<CheckpointInfo>> result;
  const auto refuse = [&] {
    AwaitWriting();
    shards_.End(absl::UnavailableError("no space on the disk"));
    AwaitIdle();
    result = checkpointer_->TakeBest();
  };
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  for (int tries = 0; tries < 100 && !result; ++tries) {
    clock_.Advance(absl::Seconds(20));
    refuse();
  }
  ASSERT_TRUE(result);
  const auto is_tried = [&](uint64_t step) {
    checkpointer_->SaveBest(BestAt(step), "evaluation");
    result = checkpointer_->TakeBest();
    return !result;
  };
  EXPECT_FALSE(is_tried(31));
  EXPECT_THAT(std::string(result->status().message()), HasSubstr("no space on the disk"));
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(is_tried(32));
  refuse();
  EXPECT_TRUE(result) << "once";
  clock_.Advance(absl::Minutes(1));
  EXPECT_FALSE(is_tried(33)) << "the pause is longer now";
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(is_tried(34));
  shards_.SetStates(34);
  WriteBest();
  EXPECT_EQ(checkpointer_->TakeBest()->value().step(), 34u);
  EXPECT_TRUE(is_tried(35));
}

// It was ten minutes.
TEST_F(CheckpointerBestTest, ShardsThatHangWhileTheyWriteItAreWaitedForAMinute) {
  OpenIdle();
  At(40);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitWriting();
  clock_.Advance(absl::Seconds(59));
  Advance();
  EXPECT_FALSE(checkpointer_->TakeBest());
  clock_.Advance(absl::Seconds(2));
  AwaitIdle();
  const auto result = checkpointer_->TakeBest();
  ASSERT_TRUE(result);
  EXPECT_THAT(std::string(result->status().message()), HasSubstr("it waits for ps-1"));
  EXPECT_EQ(shards_.cancelled, 1);
}

TEST_F(CheckpointerBestTest, AnotherOneThatHangsIsWaitedForAMinute) {
  OpenIdle();
  At(40);
  Request();
  AwaitWriting();
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  clock_.Advance(absl::Seconds(61));
  Advance();
  const auto result = checkpointer_->TakeBest();
  ASSERT_TRUE(result);
  EXPECT_THAT(std::string(result->status().message()), HasSubstr("it waits for ps-1"));
  EXPECT_EQ(shards_.cancelled, 0);
  shards_.Write();
  AwaitIdle();
  EXPECT_THAT(Numbers(), ElementsAre(1)) << "it goes on";
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "");
}

// A large one takes longer.
TEST_F(CheckpointerBestTest, ItHasAsLongAsItsBytesNeed) {
  bytes_ = uint64_t{300} << 20;
  OpenIdle();
  At(40);
  shards_.SetStates(30);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitWriting();
  clock_.Advance(absl::Minutes(4));
  Advance();
  EXPECT_FALSE(checkpointer_->TakeBest());
  WriteBest();
  EXPECT_EQ(checkpointer_->TakeBest()->value().step(), 30u);
}

TEST_F(CheckpointerBestTest, ItEndsWithTheGeneration) {
  OpenIdle();
  At(40);
  shards_.SetStates(30);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitWriting();
  checkpointer_->Detach("ps-1 went");
  EXPECT_FALSE(checkpointer_->TakeBest());
  Attach();
  AwaitIdle();
  EXPECT_FALSE(checkpointer_->TakeBest());
  EXPECT_FALSE(shards_.request);
  EXPECT_THAT(Numbers(), IsEmpty());
}

// What a lost server is made again from must not go for a newer one of an earlier step.
TEST_F(CheckpointerBestTest, ALaterStateThatWasSavedBeforeItIsSavedAgain) {
  OpenIdle();
  At(40);
  Request();
  WriteOne();
  At(45);
  shards_.SetStates(30);
  checkpointer_->SaveBest(BestAt(30), "evaluation");
  AwaitWriting();
  shards_.Write();
  AwaitThat([this] { return checkpointer_->TakeBest().has_value(); });
  shards_.SetStates(45);
  WriteOne();
  EXPECT_EQ(Manifest(2).step(), 30u);
  EXPECT_EQ(Manifest(3).step(), 45u);
}

// Does not answer, once it is told so, before and after a manifest gets its name, or where one
// goes, until its gate is open.
class HangingManifests final : public rocksdb::FileSystemWrapper {
 public:
  HangingManifests() : rocksdb::FileSystemWrapper(RealFileSystem()) {}
  const char* Name() const override { return "HangingManifests"; }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    PassIf(hangs_before, to);
    const rocksdb::IOStatus renamed = FileSystemWrapper::RenameFile(from, to, options, debug);
    PassIf(hangs_after, to);
    return renamed;
  }
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    PassIf(hangs_at_removal, path);
    return FileSystemWrapper::DeleteFile(path, options, debug);
  }
  std::atomic<bool> hangs_before{false};
  std::atomic<bool> hangs_after{false};
  std::atomic<bool> hangs_at_removal{false};
  Gate gate;

 private:
  void PassIf(const std::atomic<bool>& hangs, const std::string& path) {
    if (hangs && absl::EndsWith(path, "/manifest.json")) gate.Pass();
  }
};

class CheckpointerHangingBestTest : public CheckpointerBestTest {
 protected:
  // There is one of step 20; that of the best of step 30 is committed in a directory that hangs.
  void BeginCommit(std::atomic<bool> HangingManifests::*hangs) {
    spec_.mutable_checkpoints()->set_keep(1);
    Open(files_);
    AwaitIdle();
    At(20);
    Request();
    WriteOne();
    checkpointer_->TakeEnded();
    shards_.SetStates(30);
    checkpointer_->SaveBest(BestAt(30), "evaluation");
    AwaitWriting();
    (files_.get()->*hangs) = true;
    shards_.Write();
    Advance();
    files_->gate.AwaitSomebody();
    EXPECT_FALSE(checkpointer_->TakeBest());
  }
  // The same, and it has hung for a minute.
  void CommitBest(std::atomic<bool> HangingManifests::*hangs) {
    BeginCommit(hangs);
    clock_.Advance(absl::Seconds(61));
    Advance();
  }
  void Answer() {
    files_->gate.Open();
    AwaitIdle();
  }
  // It is given up, and is no checkpoint when the directory answers.
  void ExpectNone() {
    const auto result = checkpointer_->TakeBest();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status().code(), absl::StatusCode::kUnavailable);
    Answer();
    EXPECT_THAT(Numbers(), ElementsAre(1));
    EXPECT_EQ(checkpointer_->newest()->step(), 20u);
    EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("does not answer"));
    EXPECT_THAT(shards_.unpinned, IsEmpty());
  }

  const std::shared_ptr<HangingManifests> files_ = std::make_shared<HangingManifests>();
};

// It became one, which said that it has the best state, and the one before went for it.
TEST_F(CheckpointerHangingBestTest, OneThatIsGivenUpBeforeItsManifestIsThereIsNone) {
  CommitBest(&HangingManifests::hangs_before);
  ExpectNone();
}

TEST_F(CheckpointerHangingBestTest, OneThatIsGivenUpBeforeItCountsIsNone) {
  CommitBest(&HangingManifests::hangs_after);
  ExpectNone();
}

TEST_F(CheckpointerHangingBestTest, OneThatIsThereIsTheBestThoughWhatIsOldDoesNotGo) {
  CommitBest(&HangingManifests::hangs_at_removal);
  const auto result = checkpointer_->TakeBest();
  ASSERT_TRUE(result && result->ok());
  EXPECT_EQ((*result)->step(), 30u);
  EXPECT_EQ((*result)->number(), 2u);
  Answer();
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_EQ(Manifest(2).best().checkpoint().number(), 2u);
  EXPECT_EQ(checkpointer_->newest()->step(), 30u);
  EXPECT_FALSE(checkpointer_->TakeBest());
}

// The one before goes for it.
TEST_F(CheckpointerHangingBestTest, OneThatCountsWhenTheGenerationEndsStays) {
  BeginCommit(&HangingManifests::hangs_at_removal);
  checkpointer_->Detach("ps-1 went");
  Attach(30);
  Answer();
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_EQ(checkpointer_->newest()->step(), 30u);
}

// Its manifest said that it is the best one, of an evaluation that nobody took.
TEST_F(CheckpointerHangingBestTest, OneThatIsCommittedWhenTheGenerationEndsIsNone) {
  BeginCommit(&HangingManifests::hangs_before);
  checkpointer_->Detach("ps-1 went");
  Attach(30);
  Answer();
  EXPECT_FALSE(checkpointer_->TakeBest());
  EXPECT_THAT(Numbers(), ElementsAre(1));
  EXPECT_EQ(checkpointer_->newest()->step(), 20u);
}

TEST_F(CheckpointerBestTest, AJobThatIsStoppedEarlyIsSavedAtItsEnd) {
  OpenIdle();
  At(40);
  checkpointer_->SetEnd(40);
  AwaitThat([this] {
    if (shards_.request) shards_.Write();
    return checkpointer_->MayEnd(absl::nullopt);
  });
  EXPECT_TRUE(Manifest(1).ended());
  EXPECT_EQ(Manifest(1).total_steps(), 40u);
}

}  // namespace
}  // namespace millrace::coordinator
