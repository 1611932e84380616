// What is left of a shard whose job has ended, and of pushes that came to nothing.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_fixture.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kStateBytes = 10 * sizeof(float);

class ShardRetireTest : public ShardTest {
 protected:
  // At version 1, retired, and with that in the database.
  void MakeRetired() {
    Make(MakeSpec({10}));
    shard_->SetReader([this] { ++reads_; });
    PushWhole(shard_.get(), 0, 1, std::vector<float>(10, 1));
    ASSERT_TRUE(shard_->Retire(1).ok());
    shard_->SetStored(shard_->term());
  }

  // What comes of it is in `pulled_`.
  void Pull(PullRequest request = {}) {
    request.set_generation(1);
    shard_->Read(request,
                 [this](absl::StatusOr<StatePtr> state) { pulled_.push_back(std::move(state)); });
  }

  int reads_ = 0;
  std::vector<absl::StatusOr<StatePtr>> pulled_;
};

TEST_F(ShardRetireTest, KeepsItsNewestStateAndNothingElse) {
  Make(MakeSpec({10}, /*replicas=*/1));
  ASSERT_TRUE(shard_->PinCut(1, "cut").ok());
  for (uint64_t step = 0; step < 3; ++step) PushPart(1, step, step, 0, 10, 1);
  PushPart(1, /*step=*/3, /*push_id=*/3, 0, 9, 1);
  PullRequest next;
  next.set_version(4);
  Pull(next);
  EXPECT_THAT(pulled_, IsEmpty());
  ASSERT_TRUE(shard_->Retire(1).ok());
  ASSERT_EQ(pulled_.size(), 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(pulled_[0].status()));
  EXPECT_THAT(std::string(pulled_[0].status().message()), HasSubstr("the job of shard 0"));
  EXPECT_EQ(shard_->Status().memory_bytes(), kStateBytes);
  EXPECT_FALSE(shard_->Status().has_previous());
  EXPECT_TRUE(absl::IsNotFound(shard_->Pinned(1, "cut").status()));
  EXPECT_EQ(PushPart(1, 3, 3, 9, 1, 1)->code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ShardRetireTest, ValuesAreGivenUpOnlyWhenTheirRetirementIsStored) {
  Make(MakeSpec({10}));
  PushWhole(shard_.get(), 0, 1, std::vector<float>(10, 1));
  for (const bool retired : {false, true}) {
    if (retired) {
      ASSERT_TRUE(shard_->Retire(1).ok());
    }
    EXPECT_EQ(shard_->GivableBytes(), 0);
    EXPECT_FALSE(shard_->GiveUpValues());
    EXPECT_EQ(shard_->Status().memory_bytes(), kStateBytes);
  }
  shard_->SetStored(shard_->term());
  EXPECT_EQ(shard_->GivableBytes(), kStateBytes);
  EXPECT_TRUE(shard_->GiveUpValues());
  EXPECT_FALSE(root_.has_value()) << "it would lead to blocks that are gone";
  const ShardStatus status = shard_->Status();
  EXPECT_EQ(status.memory_bytes(), 0);
  EXPECT_EQ(status.version(), 1);
  EXPECT_EQ(status.applied().watermark(), 1);
  EXPECT_EQ(shard_->GivableBytes(), 0);
  EXPECT_FALSE(shard_->GiveUpValues()) << "they are gone";
}

TEST_F(ShardRetireTest, ValuesThatWereGivenUpAreReadOnceForAllPulls) {
  MakeRetired();
  const StatePtr values = Newest(shard_.get());
  for (const int time : {1, 2}) {
    ASSERT_TRUE(shard_->GiveUpValues());
    pulled_.clear();
    PullRequest named;
    named.set_version(1);
    Pull();
    Pull(named);
    EXPECT_THAT(pulled_, IsEmpty());
    EXPECT_EQ(reads_, time);
    shard_->Restore(values);
    Pull();
    ASSERT_EQ(pulled_.size(), 3);
    for (const auto& state : pulled_) EXPECT_EQ(*state, values);
    EXPECT_EQ(reads_, time) << "they are there";
  }
  ASSERT_TRUE(shard_->GiveUpValues());
  PullRequest other;
  other.set_version(0);
  Pull(other);
  EXPECT_TRUE(absl::IsAborted(pulled_.back().status()));
  EXPECT_THAT(std::string(pulled_.back().status().message()),
              HasSubstr("its job ended at version 1"));
}

TEST_F(ShardRetireTest, ValuesThatCannotBeReadAreTriedAgainWithTheNextPull) {
  MakeRetired();
  const StatePtr values = Newest(shard_.get());
  ASSERT_TRUE(shard_->GiveUpValues());
  Pull();
  shard_->Restore(absl::UnavailableError("the disk fails"));
  Pull();
  auto older = std::make_shared<ShardState>(*values);
  older->version = 0;
  shard_->Restore(StatePtr(older));
  Pull();
  EXPECT_EQ(reads_, 3);
  ASSERT_EQ(pulled_.size(), 2);
  EXPECT_EQ(pulled_[0].status().message(), "the disk fails");
  EXPECT_TRUE(absl::IsDataLoss(pulled_[1].status()));
  shard_->Restore(values);
  ASSERT_EQ(pulled_.size(), 3);
  EXPECT_EQ(*pulled_[2], values);
}

// One that the rule still knew kept its pieces, and the turn.
TEST_F(ShardRetireTest, VoidedPushesLeaveNoMemory) {
  Make(MakeSpec({10}));
  const absl::Time start = absl::UnixEpoch();
  shard_->Tick(start);
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1);
  PushPart(2, /*step=*/1, /*push_id=*/2, 0, 9, 1);
  EXPECT_GT(shard_->Status().memory_bytes(), kStateBytes);
  shard_->Tick(start + absl::Seconds(61));
  EXPECT_EQ(shard_->Status().memory_bytes(), kStateBytes) << "silent ones";

  PushPart(1, 0, 3, 0, 9, 1);
  PushPart(2, 1, 4, 0, 9, 1);
  for (const uint64_t step : {0, 1}) {
    EXPECT_EQ(PushPart(step + 1, step, step + 3, 8, 2, 1)->code(),
              static_cast<int>(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(shard_->Status().memory_bytes(), kStateBytes) << "refused ones";
}

TEST_F(ShardRetireTest, PinnedStateIsCountedAndNotTakenBackFromItsPulls) {
  spare_.emplace(1);
  Make(MakeSpec({10}));
  ASSERT_TRUE(shard_->PinCut(1, "cut").ok());
  const std::shared_ptr<StateHold> pull = shard_->Hold(Newest(shard_.get()));
  PushPart(1, 0, 1, 0, 10, 1);
  EXPECT_NE(pull->Get(), nullptr);
  EXPECT_EQ(shard_->Status().memory_bytes(), 2 * kStateBytes);
  ASSERT_TRUE(shard_->UnpinCut(1, "cut").ok());
  PushPart(1, 1, 2, 0, 10, 1);
  EXPECT_EQ(pull->Get(), nullptr);
  EXPECT_EQ(shard_->Status().memory_bytes(), kStateBytes);
}

TEST_F(ShardRetireTest, CutsAreCapturedAsPlannedInItsGenerationAlone) {
  for (const uint32_t replicas : {0, 1}) {
    Make(MakeSpec({10}, replicas));
    EXPECT_TRUE(absl::IsFailedPrecondition(shard_->PlanCuts(2, /*every_versions=*/1, 0)));
    PushPart(1, 0, 1, 0, 10, 1);
    EXPECT_FALSE(shard_->TakeCapturedCut().has_value());
    shard_->AllowCuts(true);
    ASSERT_TRUE(shard_->PlanCuts(1, /*every_versions=*/1, 0).ok());
    PushPart(1, 1, 2, 0, 10, 1);
    const absl::optional<CapturedCut> cut = shard_->TakeCapturedCut();
    ASSERT_EQ(cut.has_value(), replicas == 1) << "asynchronous shards choose their own";
    EXPECT_EQ(cut.has_value() ? cut->state->version : 2, 2);
  }
}

TEST_F(ShardRetireTest, StepBackIsDoneOnlyWhereItWasToTheSameCut) {
  Make(MakeSpec({10}, /*replicas=*/1));
  ShardContents contents;
  contents.state = Newest(shard_.get());
  contents.epoch = 2;
  contents.stepped_back_to.set_epoch(1);
  const CutName cut = contents.stepped_back_to;
  EXPECT_FALSE(*shard_->SteppedBack(1, cut, 2));
  ASSERT_TRUE(shard_->StepBack(/*generation=*/1, std::move(contents)).ok());
  EXPECT_TRUE(*shard_->SteppedBack(1, cut, 2));
  EXPECT_FALSE(*shard_->SteppedBack(1, cut, 3));
  EXPECT_TRUE(absl::IsInvalidArgument(shard_->SteppedBack(1, cut, 1).status()));
  CutName other = cut;
  other.set_epoch(0);
  EXPECT_TRUE(absl::IsInvalidArgument(shard_->SteppedBack(1, other, 2).status()));
  other = cut;
  other.set_version(1);
  EXPECT_TRUE(absl::IsInvalidArgument(shard_->SteppedBack(1, other, 2).status()));
}

TEST_F(ShardRetireTest, WaitSaysForWhichStepsItIs) {
  const auto waits_for = [this] {
    pulled_.clear();
    PullRequest request;
    request.set_generation(1);
    request.set_version(7);
    const uint64_t waiter = shard_->Read(
        request, [this](absl::StatusOr<StatePtr> state) { pulled_.push_back(std::move(state)); });
    shard_->StopWaiting(waiter, absl::StatusCode::kDeadlineExceeded);
    return std::string(pulled_.at(0).status().message());
  };
  Make(MakeSpec({10}, /*replicas=*/0));
  EXPECT_THAT(waits_for(), HasSubstr(" is at version 0 and waits for further steps"));
  Make(MakeSpec({10}, /*replicas=*/10));
  EXPECT_THAT(waits_for(), HasSubstr(" and waits for steps 0, 1, 2, 3, 4, 5, 6, 7 and more"));
  for (const uint64_t step : {0, 3}) PushPart(1, step, step, 0, 10, 1);
  EXPECT_THAT(waits_for(), HasSubstr(" and waits for steps 1, 2, 4, 5, 6, 7, 8, 9"));
}

}  // namespace
}  // namespace millrace::ps
