#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ShardTest, PinnedStateDoesNotChange) {
  Make(MakeSpec({10}));
  PushWhole(shard_.get(), 0, 1, std::vector<float>(10, 1));
  const StatePtr held = Newest(shard_.get());
  for (uint64_t step = 1; step < 20; ++step) {
    PushWhole(shard_.get(), step, step + 1, std::vector<float>(10, 1));
  }
  EXPECT_THAT(Values(*held), Each(-1));
  EXPECT_EQ(held->applied.watermark(), 1);
}

TEST_F(ShardTest, OldStatesAreTakenBackFromSlowPullsWhereMemoryIsShort) {
  spare_.emplace(2 * 4000);
  Make(MakeSpec({1000}));
  std::vector<std::shared_ptr<StateHold>> holds;
  for (uint64_t step = 0; step < 5; ++step) {
    holds.push_back(shard_->Hold(Newest(shard_.get())));
    PushWhole(shard_.get(), step, step + 1, std::vector<float>(1000, 1));
  }
  EXPECT_EQ(holds[0]->Get(), nullptr);
  EXPECT_EQ(holds[2]->Get(), nullptr);
  EXPECT_NE(holds[3]->Get(), nullptr);
  EXPECT_EQ(shard_->Status().memory_bytes(), 3 * 4000);
  EXPECT_EQ(spare_->used(), 2 * 4000);
  holds.clear();
  PushWhole(shard_.get(), 5, 6, std::vector<float>(1000, 1));
  EXPECT_EQ(spare_->used(), 0);
}

// What pulls send in other encodings was in no count.
TEST_F(ShardTest, CopiesThatPullsSendCountAsMemory) {
  spare_.emplace(10'000);
  Make(MakeSpec({1000}));
  absl::StatusOr<std::shared_ptr<char[]>> first = shard_->MakeCopy(8'000);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(spare_->used(), 8'000);
  EXPECT_EQ(shard_->Status().memory_bytes(), 4000 + 8'000);
  absl::StatusOr<std::shared_ptr<char[]>> second = shard_->MakeCopy(8'000);
  ASSERT_TRUE(second.ok()) << "one that is begun is not refused: " << second.status();
  const absl::Status refused = shard_->MakeCopy(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("pull again later"));
  *first = nullptr;
  EXPECT_TRUE(shard_->MakeCopy(1).ok());
  *second = nullptr;
  shard_->Tick(absl::UnixEpoch());
  EXPECT_EQ(spare_->used(), 0);
  EXPECT_EQ(shard_->Status().memory_bytes(), 4000);
}

TEST_F(ShardTest, PinsAreBounded) {
  Make(MakeSpec({10}));
  for (const char* cut : {"a", "b", "c", "d"}) EXPECT_TRUE(shard_->PinCut(1, cut).ok());
  EXPECT_EQ(shard_->PinCut(1, "e").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(shard_->PinCut(1, "a").ok()) << "a repeated call";
}

// Each part was of the newest state of its own moment.
TEST_F(ShardTest, PartsOfAGroupAreOfOneState) {
  Make(MakeSpec({10}));
  PullRequest pull;
  pull.set_generation(1);
  pull.set_parts(2);
  pull.set_pull_group(7);
  std::vector<uint64_t> versions;
  const auto note = [&](absl::StatusOr<StatePtr> state) { versions.push_back((*state)->version); };
  shard_->Read(pull, note);
  PushWhole(shard_.get(), 0, 1, std::vector<float>(10, 1));
  pull.set_part(1);
  shard_->Read(pull, note);
  pull.set_pull_group(8);
  shard_->Read(pull, note);
  pull.clear_parts();
  pull.clear_part();
  shard_->Read(pull, note);
  PushWhole(shard_.get(), 1, 2, std::vector<float>(10, 1));
  shard_->Read(pull, note);
  EXPECT_THAT(versions, ElementsAre(0, 0, 1, 1, 2)) << "without parts there is no group";
}

TEST_F(ShardTest, SynchronousShardKeepsTheVersionBefore) {
  Make(MakeSpec({1}, /*replicas=*/1));
  for (uint64_t step = 0; step < 3; ++step) PushWhole(shard_.get(), step, step, {1.0f});
  absl::StatusOr<StatePtr> state;
  const auto keep = [&](absl::StatusOr<StatePtr> got) { state = std::move(got); };
  EXPECT_EQ(shard_->Read(Version(3), keep), 0);
  EXPECT_EQ(*state, Newest(shard_.get()));
  EXPECT_EQ(shard_->Read(Version(2), keep), 0);
  EXPECT_THAT(Values(**state), ElementsAre(-2));
  shard_->Read(Version(1), keep);
  EXPECT_EQ(state.status().code(), absl::StatusCode::kAborted);
}

TEST_F(ShardTest, WaitersAreWokenByTheirVersionOnly) {
  Make(MakeSpec({1}, /*replicas=*/1));
  std::vector<uint64_t> woken;
  for (uint64_t version : {2, 1, 3}) {
    EXPECT_NE(shard_->Read(Version(version),
                           [&](absl::StatusOr<StatePtr> state) {
                             woken.push_back(state.ok() ? (*state)->version : 99);
                           }),
              0);
  }
  PushWhole(shard_.get(), 0, 1, {1.0f});
  EXPECT_THAT(woken, ElementsAre(1));
  PushWhole(shard_.get(), 1, 2, {1.0f});
  EXPECT_THAT(woken, ElementsAre(1, 2));
  shard_->Refuse(absl::UnavailableError("stops"));
  EXPECT_THAT(woken, ElementsAre(1, 2, 99));
}

TEST_F(ShardTest, StoppedWaitIsNotWoken) {
  Make(MakeSpec({1}, /*replicas=*/1, /*total_steps=*/1));
  std::vector<absl::Status> ended;
  const uint64_t waiter = shard_->Read(
      Version(1), [&](absl::StatusOr<StatePtr> state) { ended.push_back(state.status()); });
  shard_->StopWaiting(waiter, absl::StatusCode::kDeadlineExceeded);
  shard_->StopWaiting(waiter, absl::StatusCode::kDeadlineExceeded);
  PushWhole(shard_.get(), 0, 1, {1.0f});
  ASSERT_EQ(ended.size(), 1);
  EXPECT_THAT(std::string(ended[0].message()), HasSubstr("waits for step 0"));
  shard_->StopWaiting(
      shard_->Read(Version(2),
                   [&](absl::StatusOr<StatePtr> state) { ended.push_back(state.status()); }),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(ended[1].message()), HasSubstr("the last one of the job"));
}

// Whoever waits for a version of the state that was left would wait for ever, or be given another.
TEST_F(ShardTest, ShardThatStepsBackEndsAllWaits) {
  Make(MakeSpec({1}, /*replicas=*/1, /*total_steps=*/9));
  absl::Status ended;
  shard_->Read(Version(1), [&](absl::StatusOr<StatePtr> state) { ended = state.status(); });
  ShardContents contents;
  contents.state = Newest(shard_.get());
  contents.epoch = 1;
  ASSERT_TRUE(shard_->StepBack(/*generation=*/1, std::move(contents)).ok());
  EXPECT_EQ(ended.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("stepped back to version 0"));
}

TEST_F(ShardTest, NothingOfWhatWasIsLeftWhenAShardHasSteppedBack) {
  Make(MakeSpec({10}, /*replicas=*/1));
  ShardContents contents;
  contents.state = Newest(shard_.get());
  contents.epoch = 1;
  ASSERT_TRUE(shard_->PlanCuts(1, /*every_versions=*/1, /*also_at=*/0).ok());
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 10, 1);
  PushPart(1, /*step=*/1, /*push_id=*/2, 0, 9, 1);
  ASSERT_TRUE(shard_->PinCut(1, "cut").ok());
  shard_->SetStored(shard_->term());
  ASSERT_TRUE(shard_->StepBack(/*generation=*/1, std::move(contents)).ok());
  EXPECT_FALSE(shard_->IsStored(shard_->term())) << "that an epoch began";
  EXPECT_FALSE(shard_->TakeCapturedCut().has_value()) << "it would be of the epoch before";
  EXPECT_EQ(root_->epoch, 1);
  EXPECT_EQ(root_->state, Newest(shard_.get()));
  EXPECT_EQ(root_->previous, nullptr);
  EXPECT_EQ(shard_->Status().memory_bytes(), 10 * sizeof(float));
  EXPECT_EQ(shard_->Pinned(1, "cut").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PushPart(1, 1, 2, 9, 1, 1)->code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(PushPart(1, 0, 3, 0, 10, 2)->outcome(), PushResponse::APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-2));

  ASSERT_TRUE(shard_->Retire(1).ok());
  EXPECT_EQ(shard_->SteppedBack(1, CutName(), /*epoch=*/2).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ShardTest, WhoeverListensHearsOfTheNextVersionOnce) {
  Make(MakeSpec({10}));
  int heard = 0;
  shard_->SetCutListener([&heard] { ++heard; });
  PushPart(1, 0, 1, 0, 10, 1);
  EXPECT_EQ(heard, 0);
  EXPECT_TRUE(shard_->ListenForChange(/*version=*/0)) << "it has come already";
  EXPECT_FALSE(shard_->ListenForChange(/*version=*/1));
  for (const uint64_t step : {1, 2}) {
    PushPart(1, step, step + 1, 0, 10, 1);
    EXPECT_EQ(heard, 1);
  }
}

TEST_F(ShardTest, NewGenerationUnpinsCuts) {
  Make(MakeSpec({10}));
  ASSERT_TRUE(shard_->PinCut(1, "cut").ok());
  ASSERT_TRUE(shard_->SetGeneration(2).ok());
  PullRequest pull;
  pull.set_generation(2);
  pull.set_cut_id("cut");
  absl::Status pulled;
  shard_->Read(pull, [&](absl::StatusOr<StatePtr> state) { pulled = state.status(); });
  EXPECT_EQ(pulled.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::ps
