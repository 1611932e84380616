// A mean gradient that waits for its norm, where several threads have its blocks.
#include "ps/shard/clipped_mean.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Values;
using ::testing::ElementsAre;

// Of two blocks, with a norm of 3 that is clipped to 1.5.
class ClippedMeanTest : public ::testing::Test {
 protected:
  ClippedMeanTest() : plan_(*PlanShard(MakeSpec({2, 1}, /*replicas=*/1))) {
    auto sum = std::make_shared<RunningSum>(&plan_.layout, &pool_);
    sum->Begin(MakeWirePiece(0, 0, {4.0f, 4.0f}));
    sum->Begin(MakeWirePiece(1, 0, {2.0f}));
    mean_.emplace(tools_, /*clip_norm=*/1.5, std::move(sum), /*divisor=*/2);
  }

  void MeasureAll() {
    while (const absl::optional<Work> work = mean_->Next(state_)) {
      work->compute();
      EXPECT_FALSE(mean_->Done(*work));
    }
  }

  BlockPool pool_;
  const ShardPlan plan_;
  const UpdateTools tools_ = {&plan_.layout, plan_.optimizer.get(), &pool_};
  const StatePtr state_ = *MakeInitialState(plan_, &pool_);
  absl::optional<ClippedMean> mean_;
};

// The squares of some blocks alone would be taken for the norm of all.
TEST_F(ClippedMeanTest, IsNotMeasuredBeforeItsLastBlockIs) {
  const absl::optional<Work> first = mean_->Next(state_);
  const absl::optional<Work> second = mean_->Next(state_);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_FALSE(mean_->Next(state_).has_value());
  second->compute();
  EXPECT_FALSE(mean_->Done(*second));
  EXPECT_EQ(mean_->Measure().state, MeasureVersionResponse::ADDING);
  EXPECT_TRUE(absl::IsAborted(mean_->SetNorm(3)));
  first->compute();
  EXPECT_FALSE(mean_->Done(*first));
  const VersionMeasure measure = mean_->Measure();
  EXPECT_EQ(measure.state, MeasureVersionResponse::MEASURED);
  EXPECT_EQ(measure.squares.ToDouble(), 9);
  EXPECT_FALSE(mean_->Next(state_).has_value()) << "it has not been told the norm";
}

TEST_F(ClippedMeanTest, IsAppliedWithTheNormThatItWasToldFirst) {
  MeasureAll();
  EXPECT_TRUE(mean_->SetNorm(3).ok());
  const absl::optional<Work> first = mean_->Next(state_);
  EXPECT_EQ(mean_->Measure().state, MeasureVersionResponse::NORM_KNOWN);
  EXPECT_EQ(mean_->Measure().norm, 3);
  EXPECT_TRUE(mean_->SetNorm(3).ok());
  const absl::Status other = mean_->SetNorm(30);
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_EQ(other.message(), "norm: 30; it is being applied with 3");
  const absl::optional<Work> second = mean_->Next(state_);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_FALSE(mean_->Next(state_).has_value());
  second->compute();
  EXPECT_FALSE(mean_->Done(*second));
  first->compute();
  EXPECT_TRUE(mean_->Done(*first));
  const StatePtr next = first->update->Finish({0});
  EXPECT_THAT(Values(*next), ElementsAre(-1, -1, -0.5));
  EXPECT_EQ(next->gradient_norm, 3);
}

}  // namespace
}  // namespace millrace::ps
