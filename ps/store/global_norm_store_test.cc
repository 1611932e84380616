// Versions that wait for a norm, and norms of versions that were made, through what outlives a
// process: the arena, cuts, a clean stop.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/reopened_store_fixture.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;
using ::testing::ElementsAre;

class GlobalNormStoreTest : public ReopenedStoreTest {
 protected:
  GlobalNormStoreTest() {
    ShardSpec spec = MakeSpec({2}, /*replicas=*/2);  // SGD with learning rate 1.
    spec.mutable_optimizer()->set_global_clip_norm(5);
    spec.mutable_cut_period()->set_seconds(100'000);  // No cut but those that are asked for.
    EXPECT_TRUE(store_->Create(spec, generation_).ok());
  }

  // Both contributions to a version, whose mean is {3, 4} times `factor`.
  void PushVersion(uint64_t version, float factor) {
    for (const std::vector<float>& gradient : {std::vector<float>{6, 0}, {0, 8}}) {
      std::vector<float> scaled = gradient;
      for (float& each : scaled) each *= factor;
      DecodedPush message =
          ::millrace::testing::MakeMessage(Find()->plan().spec, 2 * version + part_, ++push_id_);
      message.header.set_generation(generation_);
      message.pieces.push_back(::millrace::testing::MakeWirePiece(0, 0, scaled));
      PushResponse answer;
      Find()->Push(1, std::move(message), [&](const PushResponse& got) { answer = got; });
      EXPECT_EQ(answer.outcome(), PushResponse::HELD) << answer.message();
      part_ = 1 - part_;
    }
  }

  absl::StatusOr<MeasureVersionResponse> Measure(uint64_t version) {
    MeasureVersionRequest request;
    request.set_generation(generation_);
    request.set_version(version);
    return Find()->MeasureVersion(request);
  }

  absl::Status Apply(uint64_t version, double norm) {
    ApplyVersionRequest request;
    request.set_generation(generation_);
    request.set_version(version);
    request.set_norm(norm);
    return Find()->ApplyVersion(request).status();
  }

  void NextGeneration() { EXPECT_TRUE(store_->SetGeneration("job", 0, ++generation_).ok()); }

  uint64_t generation_ = 1;
  uint64_t part_ = 0;
};

TEST_F(GlobalNormStoreTest, KilledServerKnowsTheNormOfItsVersion) {
  PushVersion(0, 2);
  ASSERT_TRUE(Apply(0, 10).ok());
  Open(/*arena=*/true);
  EXPECT_EQ(Find()->Status().origin(), ShardStatus::ARENA);
  EXPECT_FALSE(Find()->Status().closed());
  EXPECT_TRUE(Find()->Status().has_previous());
  EXPECT_EQ(Measure(0)->state(), MeasureVersionResponse::NORM_KNOWN);
  EXPECT_EQ(Measure(0)->norm(), 10);
  PushVersion(1, 1);
  ASSERT_TRUE(Apply(1, 5).ok());
  EXPECT_THAT(Values(*Newest(Find().get())), ElementsAre(-6, -8));
}

TEST_F(GlobalNormStoreTest, KilledServerIsClosedWhereAVersionWaitedForItsNorm) {
  PushVersion(0, 2);
  EXPECT_EQ(Measure(0)->state(), MeasureVersionResponse::MEASURED);
  Open(/*arena=*/true);
  EXPECT_TRUE(Find()->Status().closed());
  EXPECT_EQ(Apply(0, 10).code(), absl::StatusCode::kFailedPrecondition);
  NextGeneration();
  EXPECT_EQ(Measure(0)->state(), MeasureVersionResponse::INCOMPLETE);
  PushVersion(0, 2);
  ASSERT_TRUE(Apply(0, 10).ok());
  EXPECT_THAT(Values(*Newest(Find().get())), ElementsAre(-3, -4));
}

TEST_F(GlobalNormStoreTest, CutHasTheNormOfItsVersion) {
  PushVersion(0, 2);
  ASSERT_TRUE(Apply(0, 10).ok());
  ASSERT_TRUE(store_->Flush("job", 0, generation_).ok());
  Open(/*arena=*/false);
  EXPECT_EQ(Find()->Status().origin(), ShardStatus::CUT);
  NextGeneration();
  EXPECT_EQ(Measure(0)->norm(), 10);
}

TEST_F(GlobalNormStoreTest, VersionThatWaitedAtACleanStopIsMeasuredAgain) {
  PushVersion(0, 1);
  ASSERT_TRUE(Apply(0, 5).ok());
  PushVersion(1, 2);
  ASSERT_TRUE(store_->Stop().ok());
  Open(/*arena=*/false);
  EXPECT_FALSE(Find()->Status().closed());
  EXPECT_EQ(Find()->Status().held().above_size() + Find()->Status().held().watermark(), 2u);
  EXPECT_EQ(Measure(0)->norm(), 5);
  EXPECT_EQ(Measure(1)->state(), MeasureVersionResponse::MEASURED);
  ASSERT_TRUE(Apply(1, 10).ok());
  EXPECT_THAT(Values(*Newest(Find().get())), ElementsAre(-6, -8));
}

}  // namespace
}  // namespace millrace::ps
