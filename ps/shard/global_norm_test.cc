// Synchronous shards whose gradients are clipped by their norm over all shards: against Keras's
// values (testing/reference/global_norms.py), and what a shard says and does on the way.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/exact_square_sum.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
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

using Floats = std::vector<float>;

template <typename Request>
Request For(uint64_t version) {
  Request request;
  request.set_generation(1);
  request.set_version(version);
  return request;
}

absl::StatusOr<MeasureVersionResponse> Measure(Shard* shard, uint64_t version) {
  return shard->MeasureVersion(For<MeasureVersionRequest>(version));
}

absl::StatusOr<ApplyVersionResponse> Apply(Shard* shard, uint64_t version, double norm) {
  auto request = For<ApplyVersionRequest>(version);
  request.set_norm(norm);
  return shard->ApplyVersion(request);
}

ExactSquareSum SumOf(const MeasureVersionResponse& measured) {
  EXPECT_EQ(measured.state(), MeasureVersionResponse::MEASURED);
  return *ExactSquareSum::FromWords(
      {measured.square_sum().data(), static_cast<size_t>(measured.square_sum_size())},
      !measured.not_finite());
}

// Variables, divided into shards as a job's are: the elements of all of them, one after the other,
// evenly.
class ShardedVariables {
 public:
  ShardedVariables(const std::vector<uint64_t>& sizes, const Floats& start, uint32_t replicas,
                   const OptimizerSpec& optimizer, size_t shards) {
    for (size_t i = 0; i < shards; ++i) {
      begins_.push_back(start.size() * i / shards);
      const size_t end = start.size() * (i + 1) / shards;
      ShardSpec spec = MakeSpec({}, replicas);
      spec.set_shard(static_cast<uint32_t>(i));
      *spec.mutable_optimizer() = optimizer;
      uint64_t first = 0;  // Of a variable, among all elements.
      for (size_t v = 0; v < sizes.size(); first += sizes[v++]) {
        const uint64_t from = std::max<uint64_t>(begins_.back(), first);
        const uint64_t to = std::min<uint64_t>(end, first + sizes[v]);
        if (from >= to) continue;
        ShardSlice& slice = *spec.add_slices();
        slice.mutable_slice()->set_variable(static_cast<uint32_t>(v));
        slice.mutable_slice()->set_offset(from - first);
        slice.mutable_slice()->set_length(to - from);
        slice.set_variable_name(std::string(1, static_cast<char>('a' + v)));
        slice.mutable_initial_value()->set_constant(0);
      }
      shards_.push_back(MakeShard(spec, absl::MakeConstSpan(start).subspan(begins_.back())));
    }
    elements_ = start.size();
  }

  void Push(uint64_t step, const Floats& gradient, uint32_t examples = 1) {
    for (size_t i = 0; i < shards_.size(); ++i) {
      const size_t end = i + 1 < shards_.size() ? begins_[i + 1] : elements_;
      const PushResponse answer =
          PushWhole(shards_[i].get(), step, step + 1,
                    absl::MakeConstSpan(gradient).subspan(begins_[i], end - begins_[i]), examples);
      EXPECT_EQ(answer.outcome(), PushResponse::HELD) << answer.message();
    }
  }

  // What a coordinator does. Returns the norm.
  double Exchange(uint64_t version) {
    ExactSquareSum sum;
    for (const auto& shard : shards_) sum.Add(SumOf(*Measure(shard.get(), version)));
    const double norm = std::sqrt(sum.ToDouble());
    for (const auto& shard : shards_) EXPECT_TRUE(Apply(shard.get(), version, norm).ok());
    return norm;
  }

  Floats AllValues() const {
    Floats all;
    for (const auto& shard : shards_) {
      const Floats values = Values(*Newest(shard.get()));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  std::unique_ptr<Shard> MakeShard(const ShardSpec& spec, absl::Span<const float> start) {
    ShardPlan plan = *PlanShard(spec);
    auto state = std::make_shared<ShardState>();
    size_t begin = 0;
    for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
      std::shared_ptr<Block> block = pool_.Allocate(place.elements, plan.optimizer->slots());
      std::copy_n(start.begin() + static_cast<ptrdiff_t>(begin), place.elements, block->array(0));
      FillInitialSlots(*plan.optimizer, block.get());
      begin += place.elements;
      state->blocks.push_back(std::move(block));
    }
    ShardContents contents;
    contents.state = std::move(state);
    return std::make_unique<Shard>(std::move(plan), /*generation=*/1, std::move(contents), &pool_);
  }

  BlockPool pool_;
  std::vector<size_t> begins_;
  size_t elements_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;
};

OptimizerSpec ParseOptimizer(const std::string& text) {
  OptimizerSpec spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

struct Line {
  std::string name;
  Floats numbers;
};

std::vector<Line> ReadTable() {
  std::ifstream file("testing/reference/global_norms.txt");
  CHECK(file.is_open()) << "testing/reference/global_norms.txt is not among the test's data";
  std::vector<Line> lines;
  std::string text;
  while (std::getline(file, text)) {
    std::istringstream stream(text);
    Line& line = lines.emplace_back();
    stream >> line.name;
    for (float number; stream >> number;) line.numbers.push_back(number);
  }
  return lines;
}

TEST(GlobalNormTest, ValuesAreThoseOfKerasOnAnyNumberOfShards) {
  std::vector<uint64_t> sizes;
  Floats start;
  std::vector<Floats> gradients;
  std::vector<Line> cases;
  for (Line& line : ReadTable()) {
    if (line.name == "sizes") sizes.assign(line.numbers.begin(), line.numbers.end());
    if (line.name == "start") start = line.numbers;
    if (line.name == "gradient") gradients.push_back(line.numbers);
    if (line.name.find('{') != std::string::npos) cases.push_back(std::move(line));
  }
  ASSERT_EQ(cases.size() % gradients.size(), 0u);
  for (size_t shards = 1; shards <= 3; ++shards) {
    for (size_t begin = 0; begin < cases.size(); begin += gradients.size()) {
      SCOPED_TRACE(cases[begin].name);
      ShardedVariables variables(sizes, start, /*replicas=*/1, ParseOptimizer(cases[begin].name),
                                 shards);
      for (size_t step = 0; step < gradients.size(); ++step) {
        variables.Push(step, gradients[step]);
        variables.Exchange(step);
        const Floats values = variables.AllValues();
        const Floats& expected = cases[begin + step].numbers;
        ASSERT_EQ(values.size(), expected.size());
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_NEAR(values[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
              << shards << " shards, step " << step << ", element " << i;
        }
      }
    }
  }
}

TEST(GlobalNormTest, BitsDoNotDependOnTheNumberOfShards) {
  const std::vector<uint64_t> sizes = {kBlockElements + 1000, 3, 7000};
  const size_t elements = kBlockElements + 8003;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<Floats> gradients(6, Floats(elements));
  for (Floats& gradient : gradients) {
    for (float& each : gradient) each = normal(random);
  }
  std::vector<Floats> results;
  std::vector<double> norms;
  for (const size_t shards : {1, 2, 3}) {
    ShardedVariables variables(sizes, Floats(elements, 0.5f), /*replicas=*/2,
                               ParseOptimizer("adam {} global_clip_norm: 100"), shards);
    for (uint64_t step = 0; step < gradients.size(); ++step) {
      variables.Push(step, gradients[step], /*examples=*/step % 2 == 0 ? 48 : 17);
      if (step % 2 == 1) norms.push_back(variables.Exchange(step / 2));
    }
    results.push_back(variables.AllValues());
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  ASSERT_EQ(norms.size(), 9u);
  for (size_t i = 0; i < norms.size(); ++i) EXPECT_EQ(norms[i], norms[i % 3]);
  EXPECT_GT(norms[0], 100) << "something was clipped";
}

class NormShardTest : public ShardTest {
 protected:
  // SGD with learning rate 1 from 0, clipped to 5; two contributions to a version.
  static ShardSpec Spec(uint32_t replicas = 2, uint64_t total_steps = 100) {
    ShardSpec spec = MakeSpec({2}, replicas, total_steps);
    spec.mutable_optimizer()->set_global_clip_norm(5);
    return spec;
  }

  PushResponse Push(uint64_t step, const Floats& gradient) {
    return PushWhole(shard_.get(), step, ++push_id_, gradient);
  }

  MeasureVersionResponse::State StateOf(uint64_t version) {
    return Measure(shard_.get(), version)->state();
  }

  uint64_t push_id_ = 0;
};

TEST_F(NormShardTest, VersionWaitsForTheNormAndIsMadeWithIt) {
  Make(Spec());
  EXPECT_EQ(Push(0, {6, 0}).outcome(), PushResponse::HELD);
  EXPECT_EQ(StateOf(0), MeasureVersionResponse::INCOMPLETE);
  EXPECT_EQ(Push(1, {0, 8}).outcome(), PushResponse::HELD);
  EXPECT_EQ(SumOf(*Measure(shard_.get(), 0)).ToDouble(), 25) << "of the mean, {3, 4}";
  EXPECT_EQ(shard_->Status().version(), 0);
  EXPECT_EQ(shard_->Status().held().watermark(), 2);
  EXPECT_EQ(Apply(shard_.get(), 0, 10)->version(), 1);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-1.5, -2));
  EXPECT_EQ(shard_->Status().applied().watermark(), 2);
  EXPECT_EQ(shard_->Status().held().watermark(), 0);
}

TEST_F(NormShardTest, ShortGradientIsAppliedAsItIs) {
  Make(Spec(/*replicas=*/1));
  EXPECT_EQ(Push(0, {0.1f, 0.2f}).outcome(), PushResponse::HELD);
  EXPECT_TRUE(Apply(shard_.get(), 0, 5).ok());
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-0.1f, -0.2f));
}

TEST_F(NormShardTest, RepeatedCallsChangeNothing) {
  Make(Spec(/*replicas=*/1));
  Push(0, {6, 8});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(StateOf(0), MeasureVersionResponse::MEASURED);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Apply(shard_.get(), 0, 10)->version(), 1);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-3, -4));
  const auto known = Measure(shard_.get(), 0);
  EXPECT_EQ(known->state(), MeasureVersionResponse::NORM_KNOWN);
  EXPECT_EQ(known->norm(), 10);
}

TEST_F(NormShardTest, VersionIsNotMadeWithAnotherNorm) {
  Make(Spec(/*replicas=*/1));
  Push(0, {6, 8});
  EXPECT_TRUE(Apply(shard_.get(), 0, 10).ok());
  const absl::Status status = Apply(shard_.get(), 0, 11).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was made with 10"));
}

TEST_F(NormShardTest, NormBeforeAllContributionsIsRefused) {
  Make(Spec());
  EXPECT_EQ(Apply(shard_.get(), 0, 10).status().code(), absl::StatusCode::kAborted);
  Push(0, {6, 8});
  EXPECT_EQ(Apply(shard_.get(), 0, 10).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(shard_->Status().version(), 0);
}

TEST_F(NormShardTest, StaleCallsAreRefused) {
  Make(Spec(/*replicas=*/1));
  for (uint64_t version = 0; version < 2; ++version) {
    Push(version, {6, 8});
    EXPECT_TRUE(Apply(shard_.get(), version, 10).ok());
  }
  const auto code = [&](uint64_t generation, uint64_t epoch, uint64_t version) {
    MeasureVersionRequest request;
    request.set_generation(generation);
    request.set_epoch(epoch);
    request.set_version(version);
    return shard_->MeasureVersion(request).status().code();
  };
  EXPECT_EQ(code(1, 0, 1), absl::StatusCode::kOk);
  EXPECT_EQ(code(1, 0, 0), absl::StatusCode::kFailedPrecondition) << "two versions ago";
  EXPECT_EQ(code(1, 0, 3), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(2, 0, 1), absl::StatusCode::kFailedPrecondition) << "another generation";
  EXPECT_EQ(code(1, 1, 1), absl::StatusCode::kFailedPrecondition) << "another epoch";
}

TEST_F(NormShardTest, ShardsThatAwaitNoNormsSaySo) {
  for (const uint32_t replicas : {0, 1}) {
    ShardSpec spec = Spec(replicas);
    if (replicas > 0) spec.mutable_optimizer()->clear_global_clip_norm();
    Make(spec);
    EXPECT_EQ(Push(0, {6, 8}).outcome(), PushResponse::APPLIED);
    EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-6, -8)) << "workers clip";
    EXPECT_EQ(Measure(shard_.get(), 0).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(NormShardTest, FrozenSlicesAndStatisticsNeitherCountNorAreClipped) {
  ShardSpec spec = MakeSpec({2, 3, 1}, /*replicas=*/1, /*total_steps=*/100);
  spec.mutable_optimizer()->set_global_clip_norm(5);
  spec.mutable_slices(1)->mutable_update()->mutable_frozen();
  spec.mutable_slices(2)->mutable_update()->mutable_moving_average()->set_momentum(0.75);
  Make(spec);
  Push(0, {6, 8, 100});
  EXPECT_EQ(SumOf(*Measure(shard_.get(), 0)).ToDouble(), 100);
  EXPECT_TRUE(Apply(shard_.get(), 0, 10).ok());
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-3, -4, 0, 0, 0, 25));
}

TEST_F(NormShardTest, ShardThatIsFrozenAltogetherHasAPartOfZero) {
  ShardSpec spec = Spec(/*replicas=*/1);
  spec.mutable_slices(0)->mutable_update()->mutable_frozen();
  Make(spec);
  EXPECT_EQ(Push(0, {}).outcome(), PushResponse::HELD);
  EXPECT_EQ(SumOf(*Measure(shard_.get(), 0)).ToDouble(), 0);
  EXPECT_EQ(Apply(shard_.get(), 0, 10)->version(), 1);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(0));
}

TEST_F(NormShardTest, LastVersionOfAJobMayHaveFewerContributions) {
  Make(Spec(/*replicas=*/2, /*total_steps=*/3));
  Push(0, {3, 4});
  Push(1, {3, 4});
  EXPECT_TRUE(Apply(shard_.get(), 0, 5).ok());
  Push(2, {6, 8});
  EXPECT_EQ(StateOf(1), MeasureVersionResponse::MEASURED);
  EXPECT_TRUE(Apply(shard_.get(), 1, 10).ok());
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-6, -8));
  EXPECT_EQ(StateOf(2), MeasureVersionResponse::INCOMPLETE) << "there is none";
}

TEST_F(NormShardTest, PullOfTheNextVersionGetsItWhenTheNormIsThere) {
  Make(Spec(/*replicas=*/1));
  Push(0, {6, 8});
  absl::optional<absl::StatusOr<StatePtr>> pulled;
  const uint64_t waiter = shard_->Read(Version(1), [&](auto state) { pulled = state; });
  EXPECT_FALSE(pulled.has_value());
  shard_->StopWaiting(waiter, absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(pulled.has_value());
  EXPECT_THAT(std::string(pulled->status().message()),
              HasSubstr("waits for the norm of their gradients over all shards"));
  pulled.reset();
  shard_->Read(Version(1), [&](auto state) { pulled = state; });
  EXPECT_TRUE(Apply(shard_.get(), 0, 10).ok());
  ASSERT_TRUE(pulled.has_value());
  EXPECT_THAT(Values(***pulled), ElementsAre(-3, -4));
}

// A shard that is one version behind is told the norm that the others have made it with.
TEST_F(NormShardTest, StateKeepsTheNormThatItWasMadeWith) {
  Make(Spec(/*replicas=*/1));
  Push(0, {6, 8});
  EXPECT_TRUE(root_->more_acknowledged) << "a killed server's shard lacks what was held";
  EXPECT_TRUE(Apply(shard_.get(), 0, 10).ok());
  EXPECT_FALSE(root_->more_acknowledged);
  ASSERT_TRUE(root_->state->gradient_norm.has_value());
  ShardContents contents;
  contents.state = root_->state;
  contents.previous = root_->previous;
  MakeFrom(Spec(/*replicas=*/1), std::move(contents));
  EXPECT_TRUE(shard_->Status().has_previous());
  EXPECT_EQ(Measure(shard_.get(), 0)->norm(), 10);
}

TEST_F(NormShardTest, WithoutTheNormOfItsVersionAShardHasNoneBefore) {
  Make(Spec(/*replicas=*/1));
  Push(0, {6, 8});
  EXPECT_TRUE(Apply(shard_.get(), 0, 10).ok());
  ShardState state = *root_->state;
  state.gradient_norm.reset();
  ShardContents contents;
  contents.previous = root_->previous;
  contents.state = std::make_shared<const ShardState>(std::move(state));
  MakeFrom(Spec(/*replicas=*/1), std::move(contents));
  EXPECT_FALSE(shard_->Status().has_previous()) << "others could not be told";
  EXPECT_EQ(Measure(shard_.get(), 0).status().code(), absl::StatusCode::kFailedPrecondition);
}

// As after a clean stop: the sum is kept as it is, and measured again.
TEST_F(NormShardTest, HeldVersionIsMeasuredAgainInAnotherLife) {
  Make(Spec());
  Push(0, {6, 0});
  Push(1, {0, 8});
  for (const bool is_told : {false, true}) {
    if (is_told) {
      EXPECT_EQ(StateOf(0), MeasureVersionResponse::MEASURED);
    }
    ShardContents contents = shard_->Contents();
    contents.origin = ShardStatus::CUT;
    MakeFrom(Spec(), std::move(contents));
    EXPECT_EQ(shard_->Status().held().watermark(), 2);
    EXPECT_EQ(SumOf(*Measure(shard_.get(), 0)).ToDouble(), 25);
  }
  EXPECT_EQ(Apply(shard_.get(), 0, 10)->version(), 1);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-1.5, -2));
}

TEST_F(NormShardTest, SteppingBackForgetsWhatWasMeasured) {
  Make(Spec(/*replicas=*/1));
  Push(0, {6, 8});
  EXPECT_EQ(StateOf(0), MeasureVersionResponse::MEASURED);
  ShardContents contents;
  contents.state = Newest(shard_.get());
  contents.epoch = 1;
  EXPECT_TRUE(shard_->StepBack(1, std::move(contents)).ok());
  EXPECT_EQ(Apply(shard_.get(), 0, 10).status().code(), absl::StatusCode::kFailedPrecondition);
  auto request = For<MeasureVersionRequest>(0);
  request.set_epoch(1);
  EXPECT_EQ(shard_->MeasureVersion(request)->state(), MeasureVersionResponse::INCOMPLETE);
}

TEST_F(NormShardTest, SumThatOverflowsMakesTheNormInfiniteAndTheValuesNoNumbers) {
  Make(Spec());
  const float large = 3e38f;
  Push(0, {large, 1});
  Push(1, {large, 1});
  const auto measured = Measure(shard_.get(), 0);
  EXPECT_TRUE(measured->not_finite());
  EXPECT_TRUE(Apply(shard_.get(), 0, SumOf(*measured).ToDouble()).ok());
  for (const float value : Values(*Newest(shard_.get()))) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace millrace::ps
