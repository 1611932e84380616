#include "worker/training/pushing_sink.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Notes what it is given.
class FakePush final : public ParameterClient::Push {
 public:
  void AddFirst(size_t variable, size_t count, EncodedNumbers gradient,
                std::shared_ptr<const void> /*owner*/) override {
    std::vector<float> values(count);
    Widen(gradient.encoding(), gradient.bytes(), absl::MakeSpan(values));
    added.emplace_back(variable, std::move(values));
    encodings.push_back(gradient.encoding());
  }
  void AddRows(size_t variable, std::shared_ptr<const VariableRows> rows, EncodedNumbers gradient,
               std::shared_ptr<const void> owner) override {
    rows_added.emplace_back(variable, *rows);
    AddFirst(variable, gradient.size(), gradient, std::move(owner));
  }
  void Commit() override {}
  absl::Status Wait(absl::Time /*deadline*/) override { return absl::OkStatus(); }

  std::vector<std::pair<size_t, std::vector<float>>> added;
  std::vector<std::pair<size_t, VariableRows>> rows_added;  // Whose numbers are in `added`.
  std::vector<Encoding::Kind> encodings;
};

// Two trained variables, a moving average and a frozen one.
class PushingSinkTest : public ::testing::Test {
 protected:
  PushingSinkTest() : variables_(4) {
    variables_[2].mutable_update()->mutable_moving_average();
    variables_[3].mutable_update()->mutable_frozen();
  }

  PushingSink Make(absl::optional<double> global_clip_norm,
                   Encoding::Kind wire = Encoding::FLOAT32) {
    return PushingSink(
        &push_, std::make_shared<GradientSet>(std::vector<uint64_t>{2, 1, 1, 0}), variables_,
        Clock::Real(), [this] { ++went_on_; }, global_clip_norm, wire);
  }

  static void Finish(PushingSink& sink, size_t variable, const std::vector<float>& gradient) {
    std::copy(gradient.begin(), gradient.end(), sink.Buffer(variable).begin());
    sink.Finished(variable);
  }

  static void FinishFinite(PushingSink& sink, size_t variable, const std::vector<float>& gradient) {
    std::copy(gradient.begin(), gradient.end(), sink.Buffer(variable).begin());
    sink.FinishedFinite(variable);
  }

  FakePush push_;
  int went_on_ = 0;  // How often the sink said so.
  std::vector<VariableSpec> variables_;
};

TEST_F(PushingSinkTest, GradientsLeaveAtOnceWhereNothingIsClipped) {
  PushingSink sink = Make(absl::nullopt);
  Finish(sink, 1, {12});
  EXPECT_THAT(push_.added, SizeIs(1));
  Finish(sink, 0, {3, 4});
  Finish(sink, 2, {100});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(1, std::vector<float>{12}),
                                       std::make_pair(0, std::vector<float>{3, 4}),
                                       std::make_pair(2, std::vector<float>{100})));
}

// What is not finite here could not leave if it were looked at.
TEST_F(PushingSinkTest, WhatTheModelKnowsToBeFiniteLeavesWithoutALook) {
  PushingSink sink = Make(absl::nullopt);
  FinishFinite(sink, 1, {INFINITY});
  sink.Buffer(0)[0] = 3;
  sink.FinishedFirst(0, 1);
  sink.Buffer(0)[0] = INFINITY;
  sink.Buffer(0)[1] = -INFINITY;
  sink.FinishedFinite(0);
  FinishFinite(sink, 2, {INFINITY});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(1, std::vector<float>{INFINITY}),
                                       std::make_pair(0, std::vector<float>{3}),
                                       std::make_pair(0, std::vector<float>{INFINITY, -INFINITY}),
                                       std::make_pair(2, std::vector<float>{INFINITY})));
}

TEST_F(PushingSinkTest, WhatTheModelKnowsToBeFiniteIsRoundedAllTheSame) {
  PushingSink sink = Make(absl::nullopt, Encoding::BFLOAT16);
  FinishFinite(sink, 0, {1.001f, -3.01f});
  FinishFinite(sink, 1, {1e-30f});
  FinishFinite(sink, 2, {1.001f});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{1, -3.015625f}),
                                       std::make_pair(1, std::vector<float>{0x1.44p-100f}),
                                       std::make_pair(2, std::vector<float>{1.001f})));
  EXPECT_THAT(push_.encodings,
              ElementsAre(Encoding::BFLOAT16, Encoding::BFLOAT16, Encoding::FLOAT32));
}

// Nothing of a large variable left before all of it was rounded.
TEST_F(PushingSinkTest, ALargeGradientLeavesWhileItIsRounded) {
  constexpr size_t kElements = 2 * kBlockElements + 3;
  for (const Encoding::Kind wire : {Encoding::FLOAT32, Encoding::BFLOAT16}) {
    push_ = {};
    const auto gradients = std::make_shared<GradientSet>(std::vector<uint64_t>{kElements, 1, 1, 0});
    PushingSink sink(
        &push_, gradients, variables_, Clock::Real(), [] {}, absl::nullopt, wire);
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) gradient[i] = static_cast<float>(i % 200);
    Finish(sink, 0, gradient);
    std::vector<size_t> counts;
    for (const auto& [variable, values] : push_.added) counts.push_back(values.size());
    EXPECT_THAT(counts, ElementsAre(kBlockElements, 2 * kBlockElements, kElements));
    EXPECT_EQ(push_.added.back().second, gradient);
  }
}

TEST_F(PushingSinkTest, WhatTheModelKnowsToBeFiniteMustFitAllTheSame) {
  PushingSink sink = Make(absl::nullopt, Encoding::FLOAT16);
  FinishFinite(sink, 0, {1, -65520});
  EXPECT_EQ(sink.Check().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, WhatTheModelKnowsToBeFiniteIsClippedAllTheSame) {
  PushingSink sink = Make(6.5);
  FinishFinite(sink, 1, {12});
  FinishFinite(sink, 2, {100});
  FinishFinite(sink, 0, {3, 4});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_THAT(push_.added, IsEmpty());
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{1.5, 2}),
                                       std::make_pair(1, std::vector<float>{6}),
                                       std::make_pair(2, std::vector<float>{100})));
}

TEST_F(PushingSinkTest, NothingMoreLeavesBehindAGradientThatIsNoNumberThoughItIsFinite) {
  PushingSink sink = Make(absl::nullopt);
  Finish(sink, 1, {std::nanf("")});
  FinishFinite(sink, 0, {3, 4});
  EXPECT_EQ(sink.Check().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, GradientThatIsFinishedTwiceLeavesOnceAndIsTold) {
  PushingSink sink = Make(absl::nullopt);
  FinishFinite(sink, 0, {3, 4});
  FinishFinite(sink, 1, {12});
  FinishFinite(sink, 2, {100});
  sink.FinishedFinite(1);
  sink.Finished(1);
  EXPECT_EQ(sink.Check(),
            absl::InternalError("the model has finished the gradient of variable 1 3 times in one "
                                "step; it must do so once"));
  EXPECT_THAT(push_.added, SizeIs(3));
}

TEST_F(PushingSinkTest, FrozenVariableThatIsFinishedAsFiniteIsTold) {
  PushingSink sink = Make(absl::nullopt);
  FinishFinite(sink, 0, {3, 4});
  FinishFinite(sink, 1, {12});
  FinishFinite(sink, 2, {100});
  sink.FinishedFinite(3);
  EXPECT_THAT(sink.Check().message(), HasSubstr("since the variable is frozen"));
  EXPECT_THAT(push_.added, SizeIs(3));
}

TEST_F(PushingSinkTest, DeviceIsShownMemoryOfItsOwnAlone) {
  class Memory final : public HostMemory {
   public:
    void* Allocate(size_t) override { return floats_; }
    void Free(void*) noexcept override {}

   private:
    alignas(64) float floats_[64];
  };
  const std::vector<uint64_t> sizes = {2, 1, 1, 0};
  SimulatedClock clock;
  const absl::Time made_at = clock.Now();
  const auto set = std::make_shared<GradientSet>(sizes, std::make_shared<Memory>());
  PushingSink sink(&push_, set, variables_, &clock);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(sink.DeviceBuffer(0).data(), set->variable(0).data());
  EXPECT_EQ(sink.DeviceBuffer(0).size(), 2);
  EXPECT_EQ(sink.backward_began_at(), made_at);
  EXPECT_EQ(sink.Buffer(0).data(), sink.DeviceBuffer(0).data());
  EXPECT_EQ(sink.backward_began_at(), clock.Now());
  EXPECT_TRUE(Make(absl::nullopt).DeviceBuffer(0).empty());
}

TEST_F(PushingSinkTest, TellsWhenTheBackwardPassBeginsAndOfEachGradient) {
  PushingSink told = Make(absl::nullopt);
  EXPECT_EQ(went_on_, 0);
  told.BackwardBegins();
  told.BackwardBegins();
  EXPECT_EQ(went_on_, 1);
  Finish(told, 1, {12});
  EXPECT_EQ(went_on_, 2);
  FinishFinite(told, 0, {3, 4});
  EXPECT_EQ(went_on_, 3);
  PushingSink untold = Make(absl::nullopt);
  untold.DeviceBuffer(0);
  EXPECT_EQ(went_on_, 3);
  untold.Buffer(0);
  untold.Buffer(1);
  EXPECT_EQ(went_on_, 4);
}

TEST_F(PushingSinkTest, BeginningOfAGradientLeavesBeforeTheRest) {
  PushingSink sink = Make(absl::nullopt);
  sink.Buffer(0)[0] = 3;
  sink.FinishedFirst(0, 1);
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{3})));
  sink.Buffer(0)[1] = 4;
  sink.Finished(0);
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{3}),
                                       std::make_pair(0, std::vector<float>{3, 4})));
}

TEST_F(PushingSinkTest, NothingMoreLeavesWhereTheBeginningIsNoNumber) {
  PushingSink sink = Make(absl::nullopt);
  Finish(sink, 1, {12});
  sink.Buffer(0)[0] = std::nanf("");
  sink.FinishedFirst(0, 1);
  sink.Buffer(0)[1] = 4;
  sink.Finished(0);
  Finish(sink, 2, {100});
  EXPECT_EQ(sink.Check().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(sink.Check().message(), HasSubstr("is nan at element 0"));
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(1, std::vector<float>{12})));
}

TEST_F(PushingSinkTest, PlaceIsToldOfAValueThatIsNoNumberInTheRest) {
  PushingSink sink = Make(absl::nullopt);
  sink.Buffer(0)[0] = 3;
  sink.FinishedFirst(0, 1);
  sink.Buffer(0)[1] = std::nanf("");
  sink.Finished(0);
  EXPECT_THAT(sink.Check().message(), HasSubstr("is nan at element 1"));
}

TEST_F(PushingSinkTest, BeginningOfAGradientIsKeptWhereTheNormOfAllClips) {
  PushingSink sink = Make(6.5);
  sink.Buffer(0)[0] = 3;
  sink.FinishedFirst(0, 1);
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, LongGradientIsClippedAsAWholeAndStatisticsAreNot) {
  PushingSink sink = Make(6.5);
  Finish(sink, 1, {12});
  Finish(sink, 2, {100});
  Finish(sink, 0, {3, 4});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_THAT(push_.added, IsEmpty()) << "the norm is not known";
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{1.5, 2}),
                                       std::make_pair(1, std::vector<float>{6}),
                                       std::make_pair(2, std::vector<float>{100})));
}

TEST_F(PushingSinkTest, ShortGradientStaysAsItIs) {
  PushingSink sink = Make(13);
  Finish(sink, 0, {3, 4});
  Finish(sink, 1, {12});
  Finish(sink, 2, {100});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{3, 4}),
                                       std::make_pair(1, std::vector<float>{12}),
                                       std::make_pair(2, std::vector<float>{100})));
}

TEST_F(PushingSinkTest, GradientThatIsNoNumberIsNotPushed) {
  PushingSink sink = Make(13);
  Finish(sink, 0, {3, std::nanf("")});
  Finish(sink, 1, {12});
  Finish(sink, 2, {100});
  EXPECT_EQ(sink.Check().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, GradientsAreRoundedAsTheyLeaveAndStatisticsAreNot) {
  PushingSink sink = Make(absl::nullopt, Encoding::BFLOAT16);
  sink.Buffer(0)[0] = 1.001f;
  sink.FinishedFirst(0, 1);
  sink.Buffer(0)[1] = -3.01f;
  sink.Finished(0);
  Finish(sink, 1, {1e-30f});
  Finish(sink, 2, {1.001f});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{1}),
                                       std::make_pair(0, std::vector<float>{1, -3.015625f}),
                                       std::make_pair(1, std::vector<float>{0x1.44p-100f}),
                                       std::make_pair(2, std::vector<float>{1.001f})));
  EXPECT_THAT(push_.encodings, ElementsAre(Encoding::BFLOAT16, Encoding::BFLOAT16,
                                           Encoding::BFLOAT16, Encoding::FLOAT32));
}

TEST_F(PushingSinkTest, GradientThatDoesNotFitFailsTheStep) {
  variables_[0].set_name("kernel");
  PushingSink sink = Make(absl::nullopt, Encoding::FLOAT16);
  Finish(sink, 0, {1, -65520});
  const absl::Status status = sink.Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "element 1 of the gradient of variable 'kernel' is -65520, which FLOAT16 cannot hold: "
            "its numbers go to 65504; set precision.wire to BFLOAT16");
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, GradientByRowsLeavesSoWhenItIsFinished) {
  PushingSink sink = Make(absl::nullopt, Encoding::BFLOAT16);
  const auto rows = std::make_shared<VariableRows>(VariableRows{2, {3, 9}});
  const absl::optional<absl::Span<float>> buffer = sink.RowBuffer(0, rows);
  ASSERT_TRUE(buffer.has_value());
  ASSERT_EQ(buffer->size(), 4u);
  std::fill(buffer->begin(), buffer->end(), 1.001f);
  EXPECT_THAT(push_.added, IsEmpty());
  sink.Finished(0);
  ASSERT_THAT(push_.rows_added, SizeIs(1));
  EXPECT_THAT(push_.rows_added[0].second.rows, ElementsAre(3, 9));
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{1, 1, 1, 1})));
  // Of a batch without ids.
  sink.RowBuffer(1, std::make_shared<VariableRows>(VariableRows{2, {}}));
  sink.Finished(1);
  ASSERT_THAT(push_.rows_added, SizeIs(2));
  EXPECT_THAT(push_.added[1].second, IsEmpty());
  Finish(sink, 2, {1});
  EXPECT_TRUE(sink.Check().ok());
}

// As a sink between does, which knows nothing of rows.
TEST_F(PushingSinkTest, VariableOfWhichRowsWereExpectedMayBeGivenAsAWhole) {
  variables_[3] = VariableSpec();
  variables_[3].add_shape(2);
  variables_[3].add_shape(3);
  PushingSink sink = Make(absl::nullopt);
  ASSERT_EQ(sink.Buffer(3).size(), 6u);
  Finish(sink, 3, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(3, std::vector<float>{1, 2, 3, 4, 5, 6})));
  EXPECT_THAT(push_.rows_added, IsEmpty());
}

TEST_F(PushingSinkTest, GradientWithoutAPlaceIsTold) {
  variables_[3] = VariableSpec();
  PushingSink sink = Make(absl::nullopt);
  sink.Finished(3);
  EXPECT_THAT(std::string(sink.Check().message()), HasSubstr("not asked where to write it"));
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, GradientByRowsThatIsNoNumberIsNamedByItsElement) {
  variables_[0].set_name("table");
  PushingSink sink = Make(absl::nullopt);
  const auto buffer = sink.RowBuffer(0, std::make_shared<VariableRows>(VariableRows{2, {3, 9}}));
  const std::vector<float> values = {1, 1, 1, NAN};
  std::copy(values.begin(), values.end(), buffer->begin());
  sink.Finished(0);
  EXPECT_THAT(std::string(sink.Check().message()),
              HasSubstr("gradient of variable 'table' is nan at element 19"));
  EXPECT_THAT(push_.added, IsEmpty());
}

TEST_F(PushingSinkTest, GradientByRowsIsClippedWithTheOthers) {
  PushingSink sink = Make(/*global_clip_norm=*/6.5);
  const auto buffer = sink.RowBuffer(0, std::make_shared<VariableRows>(VariableRows{1, {7, 8}}));
  const std::vector<float> values = {3, 4};
  std::copy(values.begin(), values.end(), buffer->begin());
  sink.Finished(0);
  Finish(sink, 1, {12});
  Finish(sink, 2, {100});
  EXPECT_THAT(push_.added, IsEmpty());
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_TRUE(sink.PushKept().ok());
  ASSERT_THAT(push_.rows_added, SizeIs(1));
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{1.5f, 2}),
                                       std::make_pair(1, std::vector<float>{6}),
                                       std::make_pair(2, std::vector<float>{100})));
}

TEST_F(PushingSinkTest, NotANumberFailsTheStepAsItDoesUnrounded) {
  variables_[0].set_name("kernel");
  PushingSink sink = Make(absl::nullopt, Encoding::FLOAT16);
  Finish(sink, 0, {1, -INFINITY});
  EXPECT_EQ(sink.Check().message(),
            "the loss is finite, but the gradient of variable 'kernel' is -inf at element 1; "
            "lower the learning rate, or look for outliers in the data");
}

// What is clipped is what the model made; what is rounded is what was clipped.
TEST_F(PushingSinkTest, GradientThatFitsOnceItIsClippedLeaves) {
  PushingSink sink = Make(/*global_clip_norm=*/500, Encoding::FLOAT16);
  Finish(sink, 0, {300'000, 400'000});
  Finish(sink, 1, {0});
  Finish(sink, 2, {100'000});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_TRUE(sink.PushKept().ok());
  EXPECT_THAT(push_.added, ElementsAre(std::make_pair(0, std::vector<float>{300, 400}),
                                       std::make_pair(1, std::vector<float>{0}),
                                       std::make_pair(2, std::vector<float>{100'000})));
}

TEST_F(PushingSinkTest, ClippedGradientThatDoesNotFitFailsTheStep) {
  PushingSink sink = Make(/*global_clip_norm=*/1e6, Encoding::FLOAT16);
  Finish(sink, 0, {1, 100'000});
  Finish(sink, 1, {0});
  Finish(sink, 2, {1});
  EXPECT_TRUE(sink.Check().ok());
  EXPECT_EQ(sink.PushKept().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace millrace::worker
