// Which states are saved, by a job's mode and at its end.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/checkpoint/checkpoint_reader.h"
#include "common/proto_duration.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CheckpointerTest, SynchronousShardsAreAskedForTheVersionThatIsDueInTime) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(100);
  spec_.mutable_checkpoints()->clear_period();
  OpenIdle();
  AtVersion(1, {});
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 50u);
  AtVersion(52, {32});
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  AtVersion(60, {32, 50, 56});
  AwaitWriting();
  EXPECT_EQ(checkpointer_->held_cut()->version(), 50u);
  WriteCut(50);
  EXPECT_FALSE(checkpointer_->held_cut());
  EXPECT_EQ(Manifest(1).step(), 100u);
  EXPECT_TRUE(Manifest(1).exact());
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 100u);
}

// They were asked once the directory was known, and had passed the version by then.
TEST_F(CheckpointerTest, SynchronousShardsAreAskedForTheVersionBeforeTheDirectoryIsKnown) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(100);
  newest_.set_directory(directory_);
  newest_.set_number(1);
  newest_.set_step(200);
  start_thread_ = [](const std::function<void()>& /*run*/) { return std::thread([] {}); };
  Open();
  AtVersion(101, {});
  Advance();
  EXPECT_TRUE(checkpointer_->under_way());
  EXPECT_EQ(checkpointer_->wanted_version(), 150u);
}

TEST_F(CheckpointerTest, SynchronousShardsThatMissedTheVersionAreAskedForOneAhead) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(100);
  OpenIdle();
  AtVersion(60, {32});
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 50u) << "they may have it, and say so later";
  clock_.Advance(absl::Seconds(6));
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 80u);
  AtVersion(81, {32});
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 80u);
  AtVersion(81, {32, 80});
  WriteCut(80);
  EXPECT_EQ(Manifest(1).step(), 160u);
}

// One that has not come to it yet will have it.
TEST_F(CheckpointerTest, TheVersionIsAskedForUntilAllShardsHavePassedIt) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(100);
  OpenIdle();
  AtVersion(60, {32});
  shards_.states[1].set_version(49);
  situation_.shards = shards_.states;
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  clock_.Advance(absl::Seconds(6));
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 50u);
}

TEST_F(CheckpointerTest, ASynchronousOneThatIsDueByTimeIsOfWhatIsDoneByThen) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(400);
  OpenIdle();
  clock_.Advance(absl::Minutes(11));
  AtVersion(60, {32, 59});
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  EXPECT_EQ(checkpointer_->wanted_version(), 80u);
  AtVersion(64, {32, 59, 64});
  WriteCut(64);
}

// It must not go before the shards have opened it; then it may.
TEST_F(CheckpointerTest, ACutIsHeldFromWhenItIsChosenUntilItIsOpened) {
  spec_.mutable_synchronous()->set_replicas(2);
  std::atomic<bool> hangs{false};
  start_thread_ = [&hangs](const std::function<void()>& run) {
    return hangs ? std::thread([] {}) : std::thread(run);
  };
  OpenIdle();
  AtVersion(60, {32, 60});
  Request();
  hangs = true;
  Advance();
  ASSERT_TRUE(checkpointer_->held_cut()) << "the folder is being made";
  EXPECT_EQ(checkpointer_->held_cut()->version(), 60u);
  hangs = false;
  OpenIdle();
  Request();
  AwaitWriting();
  EXPECT_TRUE(checkpointer_->held_cut());
  clock_.Advance(absl::Seconds(11));
  Advance();
  EXPECT_FALSE(checkpointer_->held_cut());
}

TEST_F(CheckpointerTest, ARequestOfASynchronousJobIsForWhatIsDoneByThen) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32, 59});
  Request();
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  EXPECT_EQ(checkpointer_->wanted_version(), 80u);
  AtVersion(64, {32, 59, 64});
  WriteCut(64);
}

TEST_F(CheckpointerTest, WhoWantsToStopTakesAnOlderCutWhereNoneComes) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32, 59});
  const auto asked = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  clock_.Advance(absl::Seconds(6));
  WriteCut(59);
  EXPECT_EQ((*asked)->value().step(), 118u);
  // Nothing is newer than that now.
  const auto again = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  clock_.Advance(absl::Seconds(6));
  Advance();
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ((*again)->value().number(), 1u);
}

// It waited for the other one's end, minutes later, and nothing was saved when it stopped.
TEST_F(CheckpointerTest, WhoWantsToStopJoinsTheOneThatStillWaitsForACut) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32, 59});
  const auto first = Request();
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  clock_.Advance(absl::Seconds(10));
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  const auto asked = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  clock_.Advance(absl::Seconds(6));
  WriteCut(59);
  EXPECT_EQ((*asked)->value().step(), 118u);
  EXPECT_EQ((*first)->value().step(), 118u);
}

TEST_F(CheckpointerTest, WhereNobodyCanDoAStepWhoWantsToStopTakesWhatThereIs) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32, 59});
  situation_.is_deserted = true;
  const auto asked = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  clock_.Advance(absl::Seconds(1));
  WriteCut(59);
  EXPECT_EQ((*asked)->value().step(), 118u);
}

TEST_F(CheckpointerTest, ABarrierThatNobodyComesToIsNotWaitedForByWhoWantsToStop) {
  spec_.mutable_checkpoints()->set_exact(true);
  OpenIdle();
  At(60);
  situation_.is_deserted = true;
  const auto asked = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  EXPECT_TRUE(checkpointer_->WantsBarrier());
  clock_.Advance(absl::Seconds(1));
  Advance();
  EXPECT_FALSE(checkpointer_->WantsBarrier());
  EXPECT_EQ((*asked)->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CheckpointerTest, ABarrierIsWaitedForWhileSomebodyCanComeToIt) {
  spec_.mutable_checkpoints()->set_exact(true);
  OpenIdle();
  At(60);
  Request("ps-1 stops", /*urgent=*/true);
  Advance();
  clock_.Advance(absl::Minutes(10));
  Advance();
  EXPECT_TRUE(checkpointer_->WantsBarrier());
}

TEST_F(CheckpointerTest, AnExactJobWithoutAPeriodOfStepsHasNoBarrierBeforeItsEnd) {
  spec_.mutable_checkpoints()->set_exact(true);
  OpenIdle();
  EXPECT_EQ(checkpointer_->BarrierFrom(1), kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayBeDueAt(100));
}

// Two checkpoints of one state took the places of two states among those that are kept.
TEST_F(CheckpointerTest, ACutThatIsSavedIsNotTakenAgain) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(65);
  OpenIdle();
  AtVersion(32, {32});
  Request();
  WriteCut(32);
  AtVersion(33, {32});
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  AtVersion(70, {32, 70});
  WriteCut(70);
  // It is of step 140 already.
  AtVersion(66, {70});
  const auto asked = Request();
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_EQ((*asked)->value().step(), 140u);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

TEST_F(CheckpointerTest, WhatTheJobGoesOnFromIsNotSavedAgain) {
  spec_.mutable_checkpoints()->set_every_steps(100);
  restored_.set_directory(directory_);
  restored_.set_number(4);
  restored_.set_step(250);
  OpenIdle();
  At(250);
  const auto asked = Request();
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_EQ((*asked)->value().number(), 4u);
  At(299);
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  At(300);
  WriteOne();
  EXPECT_EQ(checkpointer_->newest()->step(), 300u);
}

TEST_F(CheckpointerTest, WhatTheJobGoesOnFromElsewhereIsSavedWhereSomebodyAsks) {
  spec_.mutable_checkpoints()->set_every_steps(100);
  restored_.set_directory("/elsewhere");
  restored_.set_number(4);
  restored_.set_step(250);
  OpenIdle();
  At(250);
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  const auto asked = Request();
  WriteOne();
  EXPECT_EQ((*asked)->value().number(), 1u);
}

TEST_F(CheckpointerTest, AnExactJobStandsAtItsFirstBarrierUntilTheDirectoryIsKnown) {
  spec_.mutable_checkpoints()->set_exact(true);
  spec_.mutable_checkpoints()->set_every_steps(100);
  Open();
  At(100);
  EXPECT_TRUE(checkpointer_->MayBeDueAt(100));
  EXPECT_FALSE(checkpointer_->MayBeDueAt(99));
  AwaitThat([this] { return !checkpointer_->MayBeDueAt(100); });
  EXPECT_TRUE(checkpointer_->IsDueAt(100));
}

TEST_F(CheckpointerTest, AnEndThatHangsIsGivenUpAfterABoundedTime) {
  OpenIdle();
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  AwaitWriting();
  clock_.Advance(absl::Minutes(6));
  Advance();
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(checkpointer_->WhatTheEndWaitsFor(),
              HasSubstr("has been written for 6m; it waits for ps-1"));
  clock_.Advance(absl::Minutes(5));
  AwaitMayEnd();
  EXPECT_EQ(shards_.cancelled, 1);
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("the last checkpoint is missing"));
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(CheckpointerTest, RequestsOutliveShardsThatGoBeforeAnythingIsWritten) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32});
  const auto asked = Request();
  Advance();
  checkpointer_->Detach("ps-1 went");
  EXPECT_THAT(checkpointer_->TakeEnded(), IsEmpty());
  EXPECT_FALSE(asked->has_value());
  Attach(120);
  AtVersion(61, {32, 61});
  WriteCut(61);
  EXPECT_EQ((*asked)->value().number(), 1u);
}

TEST_F(CheckpointerTest, AnExactOneIsOfWhatWasPinnedAtTheBarrier) {
  spec_.mutable_checkpoints()->set_exact(true);
  spec_.mutable_checkpoints()->set_every_steps(100);
  OpenIdle();
  EXPECT_EQ(checkpointer_->BarrierFrom(1), 100u);
  EXPECT_EQ(checkpointer_->BarrierFrom(101), 200u);
  At(99);
  Advance();
  EXPECT_FALSE(checkpointer_->WantsBarrier());
  At(100);
  Advance();
  EXPECT_TRUE(checkpointer_->WantsBarrier());
  ASSERT_TRUE(checkpointer_->IsDueAt(100));
  checkpointer_->NameCut();
  checkpointer_->Pinned(100, absl::Milliseconds(3));
  EXPECT_FALSE(checkpointer_->IsDueAt(100));
  At(105);
  AwaitWriting();
  EXPECT_EQ(shards_.request->cut_id(), "checkpoint-1");
  shards_.SetStates(100);
  shards_.Write();
  AwaitIdle();
  EXPECT_THAT(shards_.unpinned, ElementsAre("checkpoint-1"));
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  EXPECT_EQ(ended.at(0).step(), 100u);
  EXPECT_EQ(FromProto(ended.at(0).held_up()), absl::Milliseconds(3));
}

TEST_F(CheckpointerTest, AnExactOneThatIsNotOfThePinnedStepsIsGivenUp) {
  spec_.mutable_checkpoints()->set_exact(true);
  OpenIdle();
  At(10);
  Request();
  Advance();
  checkpointer_->NameCut();
  checkpointer_->Pinned(10, absl::ZeroDuration());
  At(11);
  AwaitWriting();
  shards_.Write();
  AwaitIdle();
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("not exactly those before 10"));
  EXPECT_THAT(shards_.unpinned, ElementsAre("checkpoint-1"));
}

// A call to unpin that came late took what was to be written next.
TEST_F(CheckpointerTest, ExactOnesArePinnedByNamesThatDoNotComeAgain) {
  spec_.mutable_checkpoints()->set_exact(true);
  OpenIdle();
  std::vector<std::string> names;
  for (const uint64_t step : {10, 20, 30}) {
    At(step);
    Request();
    Advance();
    checkpointer_->NameCut();
    checkpointer_->Pinned(step, absl::ZeroDuration());
    AwaitWriting();
    names.push_back(shards_.request->cut_id());
    shards_.Write();
    AwaitIdle();
  }
  EXPECT_THAT(names, ElementsAre("checkpoint-1", "checkpoint-2", "checkpoint-3"));
  EXPECT_EQ(shards_.unpinned, names);
}

TEST_F(CheckpointerTest, TheJobsEndIsSavedOnce) {
  OpenIdle();
  At(kSavedSteps);
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).cause(), "the job's end");
  EXPECT_EQ(Manifest(1).step(), kSavedSteps);
  // Another life of the coordinator comes to the same end.
  Open();
  Attach(kSavedSteps);
  AwaitMayEnd();
  EXPECT_FALSE(shards_.request);
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

// The last evaluation comes after it, and may be lost with the coordinator.
TEST_F(CheckpointerTest, OneOfTheLastStepIsNotYetThatOfTheEnd) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(kSavedSteps / 2 - 1, {});
  Request();
  Advance();
  AtVersion(kSavedSteps / 2, {kSavedSteps / 2});
  WriteCut(kSavedSteps / 2);
  EXPECT_EQ(Manifest(1).step(), kSavedSteps);
  EXPECT_FALSE(Manifest(1).ended());
  Open();
  Attach(kSavedSteps);
  AwaitIdle();
  CutName cut;
  cut.set_epoch(2);
  cut.set_version(kSavedSteps / 2);
  EXPECT_FALSE(checkpointer_->MayEnd(cut));
  WriteCut(kSavedSteps / 2);
  EXPECT_TRUE(checkpointer_->MayEnd(cut));
  EXPECT_TRUE(Manifest(2).ended());
}

// Both once counted among those that are kept, so that the job had one state less to go back to.
TEST_F(CheckpointerTest, TheEndTakesThePlaceOfOneOfTheLastStep) {
  spec_.mutable_checkpoints()->set_keep(3);
  OpenIdle();
  for (const uint64_t step : {300, 600, 990}) {
    At(step);
    Request();
    AwaitWriting();
    if (step == 990) At(kSavedSteps);  // By the time that the shards write.
    shards_.Write();
    AwaitIdle();
  }
  EXPECT_EQ(Manifest(3).step(), kSavedSteps);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 4));
  EXPECT_TRUE(Manifest(4).ended());
  const auto end = Checkpoint::Open(RealFileSystem(), directory_, 4);
  EXPECT_TRUE(end.ok()) << "what it refers to stays: " << end.status();
}

TEST_F(CheckpointerTest, TheEndLeavesTheBestOfTheLastStep) {
  OpenIdle();
  At(990);
  Request();
  AwaitWriting();
  At(kSavedSteps);
  shards_.Write();
  AwaitIdle();
  EXPECT_EQ(Manifest(1).step(), kSavedSteps);
  best_.set_step(kSavedSteps);
  best_.mutable_checkpoint()->set_directory(directory_);
  best_.mutable_checkpoint()->set_number(1);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

TEST_F(CheckpointerTest, TheEndOfASynchronousJobIsTheCutThatWasFlushed) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(kSavedSteps / 2, {});
  Advance();
  CutName cut;
  cut.set_epoch(2);
  cut.set_version(kSavedSteps / 2);
  EXPECT_FALSE(checkpointer_->MayEnd(cut));
  WriteCut(kSavedSteps / 2);
  EXPECT_TRUE(checkpointer_->MayEnd(cut));
}

// The state that was saved is not the job's any more.
TEST_F(CheckpointerTest, TheEndIsSavedAgainWhereStepsAreRunAgainAfterIt) {
  OpenIdle();
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  checkpointer_->Detach("ps-1 went");
  Attach(990);
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_EQ(Manifest(2).step(), kSavedSteps);
  checkpointer_->Detach("ps-1 went");
  Attach(990);
  At(990);
  Request();
  WriteOne();
  EXPECT_EQ(Manifest(3).step(), 990u) << "it is not at its end any more";
}

// A job whose last state lacked steps would have ended as if nothing were missing.
TEST_F(CheckpointerTest, TheEndIsNotSavedOfShardsThatLackSteps) {
  OpenIdle();
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  AwaitWriting();
  shards_.SetStates(990);
  shards_.Write();
  AwaitIdle();
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("not exactly those before 1000"));
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(CheckpointerTest, WhatIsDueAtTheEndIsTheEnd) {
  OpenIdle();
  At(kSavedSteps);
  const auto asked = Request();
  clock_.Advance(absl::Minutes(11));
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(Manifest(1).ended());
  EXPECT_EQ((*asked)->value().number(), 1u);
}

// One that waited for its cut kept the job from ending for minutes.
TEST_F(CheckpointerTest, TheEndDoesNotWaitForWhatWaitsForACut) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32});
  const auto asked = Request();
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  AtVersion(kSavedSteps / 2, {});
  CutName cut;
  cut.set_epoch(2);
  cut.set_version(kSavedSteps / 2);
  EXPECT_FALSE(checkpointer_->MayEnd(cut));
  WriteCut(kSavedSteps / 2);
  EXPECT_TRUE(checkpointer_->MayEnd(cut));
  EXPECT_EQ((*asked)->value().step(), kSavedSteps);
}

// The minute passed while the one before was written, and the job ended without its last one.
TEST_F(CheckpointerTest, TheEndIsSavedHoweverLongTheOneBeforeIsBeingWritten) {
  OpenIdle();
  At(990);
  const auto asked = Request();
  AwaitWriting();
  At(kSavedSteps);
  for (int i = 0; i < 5; ++i) {
    Advance();
    EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
    clock_.Advance(absl::Seconds(40));
  }
  shards_.SetStates(990);
  shards_.Write();
  AwaitIdle();
  EXPECT_EQ((*asked)->value().step(), 990u);
  shards_.SetStates(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_EQ(Manifest(2).step(), kSavedSteps);
  EXPECT_EQ(checkpointer_->trouble(), "");
}

TEST_F(CheckpointerTest, AnEndThatCannotBeSavedIsTriedForAMinute) {
  OpenIdle();
  At(kSavedSteps);
  const absl::Time begin = clock_.Now();
  size_t tries = 0;
  while (!checkpointer_->MayEnd(absl::nullopt)) {
    if (checkpointer_->under_way()) {
      AwaitWriting();
      shards_.End(absl::UnavailableError("no space on the disk"));
      AwaitIdle();
      ++tries;
    }
    clock_.Advance(absl::Seconds(1));
    ASSERT_LT(clock_.Now() - begin, absl::Minutes(2));
  }
  EXPECT_GE(clock_.Now() - begin, absl::Minutes(1));
  EXPECT_GE(tries, 3u);
  EXPECT_THAT(checkpointer_->TakeEnded(), SizeIs(tries));
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("the last checkpoint is missing"));
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("no space"));
}

}  // namespace
}  // namespace millrace::coordinator
