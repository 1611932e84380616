// Every optimizer against the values that Keras computes (testing/reference/optimizers.py), and
// what Apply promises whatever the formula. What is about norms alone is in norms_test.cc.
#include "ps/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;

const char* const kSpecs[] = {
    "sgd {}",
    "sgd { momentum: 0.9 }",
    "sgd { momentum: 0.9 nesterov: true }",
    "rmsprop {}",
    "rmsprop { momentum: 0.9 }",
    "rmsprop { centered: true }",
    "rmsprop { momentum: 0.9 centered: true }",
    "adam {}",
    "adam { amsgrad: true }",
    "adamw {}",
    "adamw { amsgrad: true }",
    "nadam {}",
    "adagrad {}",
    "adadelta {}",
    "ftrl {}",
    "ftrl { learning_rate_power: -0.7 l1: 0.001 l2_shrinkage: 0.1 }",
    "ftrl { learning_rate_power: 0 }",
    "sgd {} clip_value: 0.5",
    "ftrl {} clip_value: 0.5",
    "adam {} schedule { warmup { steps: 2 } cosine_decay { decay_steps: 9 } }",
    "sgd { momentum: 0.9 } clip_norm: 0.5",
    "rmsprop {} clip_norm: 1000",
    "lamb {}",
    "lamb {} clip_norm: 0.5",
    "lamb {} clip_value: 0.5",
};

std::unique_ptr<Optimizer> Make(const std::string& text) {
  OptimizerSpec spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  auto optimizer = MakeOptimizer(spec);
  CHECK(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

// A run of elements: the values, then each slot.
class Block {
 public:
  Block(const Optimizer& optimizer, const Floats& values) : arrays_(1, values) {
    for (int slot = 1; slot <= optimizer.slots(); ++slot) {
      arrays_.emplace_back(values.size(), optimizer.initial_slot(slot));
    }
  }

  const Floats& values() const { return arrays_[0]; }
  const std::vector<Floats>& arrays() const { return arrays_; }
  size_t size() const { return arrays_[0].size(); }

  std::vector<float*> Pointers(size_t offset) {
    std::vector<float*> pointers;
    for (Floats& array : arrays_) pointers.push_back(array.data() + offset);
    return pointers;
  }

  void ApplyInPlace(const Optimizer& optimizer, uint64_t version, const Floats& gradient) {
    ApplyRun(optimizer, version, gradient, 0, size(), this);
  }

  // Elements [begin, end), into `out`.
  void ApplyRun(const Optimizer& optimizer, uint64_t version, const Floats& gradient, size_t begin,
                size_t end, Block* out) {
    const std::vector<float*> from = Pointers(begin);
    const std::vector<float*> to = out->Pointers(begin);
    optimizer.Apply(version, reinterpret_cast<const char*>(gradient.data() + begin), end - begin,
                    from.data(), to.data());
  }

 private:
  std::vector<Floats> arrays_;
};

Floats RandomFloats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats result(count);
  for (float& value : result) value = normal(random);
  return result;
}

struct ReferenceTable {
  Floats start;
  std::vector<Floats> gradients;
  std::map<std::string, std::vector<Floats>> cases;  // The values after each step.
};

ReferenceTable ReadReferenceTable() {
  std::ifstream file("testing/reference/optimizers.txt");
  CHECK(file.is_open()) << "testing/reference/optimizers.txt is not among the test's data";
  ReferenceTable table;
  std::string text;
  while (std::getline(file, text)) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    Floats numbers;
    for (float number; line >> number;) numbers.push_back(number);
    if (name == "start") {
      table.start = numbers;
    } else if (name == "gradient") {
      table.gradients.push_back(numbers);
    } else {
      table.cases[name].push_back(numbers);
    }
  }
  return table;
}

TEST(OptimizerTest, AgreesWithKeras) {
  const ReferenceTable table = ReadReferenceTable();
  ASSERT_GE(table.cases.size(), 35u);
  for (const auto& [text, expected] : table.cases) {
    SCOPED_TRACE(text);
    const std::unique_ptr<Optimizer> optimizer = Make(text);
    Block block(*optimizer, table.start);
    ASSERT_EQ(expected.size(), table.gradients.size());
    Floats largest = table.start;  // Of each element so far: what rounding errors are relative to.
    for (float& value : largest) value = std::abs(value);
    for (size_t step = 0; step < expected.size(); ++step) {
      block.ApplyInPlace(*optimizer, step + 1, table.gradients[step]);
      for (size_t i = 0; i < block.size(); ++i) {
        largest[i] = std::max(largest[i], std::abs(expected[step][i]));
        EXPECT_NEAR(block.values()[i], expected[step][i], 1e-6f * largest[i])
            << "step " << step << ", element " << i;
      }
    }
  }
}

class EveryOptimizerTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Optimizer> optimizer_ = Make(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizerTest, ::testing::ValuesIn(kSpecs));

TEST_P(EveryOptimizerTest, CopyingGivesTheSameBitsAsInPlace) {
  constexpr size_t kCount = 1003;
  Block in_place(*optimizer_, RandomFloats(kCount, 1));
  Block source = in_place;
  Block copy(*optimizer_, Floats(kCount, 17));
  for (uint64_t version = 1; version <= 5; ++version) {
    const Floats gradient = RandomFloats(kCount, 100 + version);
    const Block before = source;
    source.ApplyRun(*optimizer_, version, gradient, 0, kCount, &copy);
    EXPECT_EQ(source.arrays(), before.arrays()) << "the input has changed";
    in_place.ApplyInPlace(*optimizer_, version, gradient);
    EXPECT_EQ(copy.arrays(), in_place.arrays());
    std::swap(source, copy);
  }
}

TEST_P(EveryOptimizerTest, BitsDoNotDependOnHowElementsAreDivided) {
  if (optimizer_->passes() > 0) GTEST_SKIP() << "variables are whole";
  constexpr size_t kCount = 777;
  Block whole(*optimizer_, RandomFloats(kCount, 2));
  Block divided = whole;
  std::mt19937 random(3);
  for (uint64_t version = 1; version <= 5; ++version) {
    const Floats gradient = RandomFloats(kCount, 200 + version);
    whole.ApplyInPlace(*optimizer_, version, gradient);
    for (size_t begin = 0; begin < kCount;) {
      const size_t end = std::min<size_t>(kCount, begin + random() % 40);
      divided.ApplyRun(*optimizer_, version, gradient, begin, end, &divided);
      begin = end;
    }
    EXPECT_EQ(divided.arrays(), whole.arrays());
  }
}

// Long runs may be written in another way than short ones, which has to begin at whole lines of the
// cache.
TEST_P(EveryOptimizerTest, LongRunsGiveTheSameBitsAsShortOnes) {
  if (optimizer_->passes() > 0) GTEST_SKIP() << "variables are whole";
  constexpr size_t kCount = 20'000;
  Floats gradient = RandomFloats(kCount, 9);
  gradient[10'000] = 1e-40f;
  Floats values = RandomFloats(kCount, 10);
  values[10'001] = -1e-40f;
  Block expected(*optimizer_, values);
  const Block start = expected;
  expected.ApplyInPlace(*optimizer_, 1, gradient);
  for (size_t begin = 0; begin < 20; ++begin) {
    for (size_t end = kCount - 20; end <= kCount; end += 7) {
      Block from = start;
      Block to(*optimizer_, Floats(kCount, 17));
      from.ApplyRun(*optimizer_, 1, gradient, 0, begin, &to);
      from.ApplyRun(*optimizer_, 1, gradient, begin, end, &to);
      from.ApplyRun(*optimizer_, 1, gradient, end, kCount, &to);
      ASSERT_EQ(to.arrays(), expected.arrays()) << "from " << begin << " to " << end;
    }
  }
}

TEST_P(EveryOptimizerTest, GradientNeedNotBeAligned) {
  constexpr size_t kCount = 100;
  const Floats gradient = RandomFloats(kCount, 4);
  Block expected(*optimizer_, RandomFloats(kCount, 5));
  const Block start = expected;
  expected.ApplyInPlace(*optimizer_, 1, gradient);
  for (size_t shift = 1; shift < sizeof(float); ++shift) {
    std::vector<char> bytes(shift + kCount * sizeof(float));
    std::memcpy(bytes.data() + shift, gradient.data(), kCount * sizeof(float));
    Block block = start;
    const std::vector<float*> arrays = block.Pointers(0);
    optimizer_->Apply(1, bytes.data() + shift, kCount, arrays.data(), arrays.data());
    EXPECT_EQ(block.arrays(), expected.arrays()) << "shifted by " << shift;
  }
}

// Checkpoints name the slots without making an optimizer.
TEST(OptimizerSlotsTest, AreAsManyAsEachElementHas) {
  std::vector<std::string> specs(std::begin(kSpecs), std::end(kSpecs));
  specs.push_back("sgd { momentum: 1e-60 }");  // Not 0, but as a float it is.
  specs.push_back("rmsprop { momentum: 1e-60 }");
  for (const std::string& text : specs) {
    OptimizerSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
    EXPECT_EQ(OptimizerSlots(spec).size(), static_cast<size_t>(Make(text)->slots())) << text;
  }
}

// Weights that decay do so without gradients too, and FTRL's follow from gradients alone.
TEST_P(EveryOptimizerTest, ZeroGradientsFromTheStartChangeNothing) {
  const std::string spec = GetParam();
  if (spec.rfind("adamw", 0) == 0 || spec.rfind("ftrl", 0) == 0) GTEST_SKIP() << "they do";
  const Floats values = RandomFloats(50, 6);
  Block block(*optimizer_, values);
  for (uint64_t version = 1; version <= 3; ++version) {
    block.ApplyInPlace(*optimizer_, version, Floats(50, 0));
  }
  EXPECT_EQ(block.values(), values);
}

TEST_P(EveryOptimizerTest, SlotsDecayToZeroNotToDenormals) {
  Block block(*optimizer_, {1, 2});
  block.ApplyInPlace(*optimizer_, 1, {1e-15f, -1e-15f});
  for (uint64_t version = 2; version < 2000; ++version) {
    block.ApplyInPlace(*optimizer_, version, {0, 0});
  }
  for (const Floats& array : block.arrays()) {
    for (const float value : array) {
      EXPECT_TRUE(value == 0 || std::isnormal(value)) << value;
    }
  }
}

TEST_P(EveryOptimizerTest, NotANumberShows) {
  Block block(*optimizer_, {1, 2});
  Block alone(*optimizer_, {2});
  block.ApplyInPlace(*optimizer_, 1, {std::numeric_limits<float>::quiet_NaN(), 0});
  alone.ApplyInPlace(*optimizer_, 1, {0});
  EXPECT_TRUE(std::isnan(block.values()[0]));
  if (optimizer_->passes() > 0) return;  // It is in the norm of the others.
  EXPECT_EQ(block.values()[1], alone.values()[0]);
}

TEST_P(EveryOptimizerTest, CallersFloatingPointModeIsRestored) {
  const volatile float smallest = std::numeric_limits<float>::min();
  Block block(*optimizer_, {1});
  block.ApplyInPlace(*optimizer_, 1, {1});
  EXPECT_GT(smallest / 2, 0);
}

// The difference of mean square and squared mean comes out below 0 here and there; with a small
// epsilon its square root would not be a number.
TEST(RmsPropTest, CenteredStaysFiniteWhenTheGradientHardlyChanges) {
  const std::unique_ptr<Optimizer> optimizer = Make("rmsprop { centered: true }");
  Floats gradient = RandomFloats(1000, 8);
  for (float& g : gradient) g = 100 + g * 1e-6f;
  Block block(*optimizer, Floats(1000, 1));
  for (uint64_t version = 1; version < 500; ++version) {
    block.ApplyInPlace(*optimizer, version, gradient);
  }
  for (const float value : block.values()) ASSERT_TRUE(std::isfinite(value));
}

TEST(AdamTest, HugeVersionsAreFine) {
  const std::unique_ptr<Optimizer> optimizer = Make("adam {}");
  Block block(*optimizer, {1});
  block.ApplyInPlace(*optimizer, uint64_t{1} << 60, {1});
  EXPECT_LT(block.values()[0], 1);
  EXPECT_TRUE(std::isfinite(block.values()[0]));
}

// Long after the table's last step: with a gradient of 1 all along, the means are 1 - beta^t, and
// each step is the learning rate.
TEST(AdamTest, StepsOfAConstantGradientAreTheLearningRate) {
  const std::unique_ptr<Optimizer> optimizer = Make("adam { learning_rate: 0.5 }");
  Block block(*optimizer, {0});
  for (uint64_t version = 1; version <= 3000; ++version) {
    const float before = block.values()[0];
    block.ApplyInPlace(*optimizer, version, {1});
    ASSERT_NEAR(before - block.values()[0], 0.5, 1e-3) << "version " << version;
  }
}

// The product of its momenta is a table's up to some version, and then a power.
TEST(NadamTest, MomentumIsTheProductOfItsStepsAtEveryVersion) {
  const std::unique_ptr<Optimizer> optimizer =
      Make("nadam { learning_rate: 1 beta_1: 0.9999 beta_2: 0 epsilon: 1e-30 }");
  double product = 1;
  for (uint64_t version = 1; version <= 3000; ++version) {
    const auto momentum = [](uint64_t t) {
      return 0.9999 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t)));
    };
    product *= momentum(version);
    Block block(*optimizer, {0});
    block.ApplyInPlace(*optimizer, version, {1});
    const double mean = 1 - 0.9999;
    const double expected = momentum(version + 1) * mean / (1 - product * momentum(version + 1)) +
                            (1 - momentum(version)) / (1 - product);
    ASSERT_NEAR(-block.values()[0], expected, 2e-6 * expected) << "version " << version;
  }
}

TEST(NadamTest, HugeVersionsAreFine) {
  const std::unique_ptr<Optimizer> optimizer = Make("nadam {}");
  Block block(*optimizer, {1});
  block.ApplyInPlace(*optimizer, uint64_t{1} << 60, {1});
  EXPECT_LT(block.values()[0], 1);
  EXPECT_TRUE(std::isfinite(block.values()[0]));
}

TEST(InitialSlotTest, AccumulatorsStartAtTheirInitialValueAndOthersAtZero) {
  EXPECT_EQ(Make("adagrad {}")->initial_slot(1), 0.1f);
  EXPECT_EQ(Make("adagrad { initial_accumulator_value: 0.5 }")->initial_slot(1), 0.5f);
  EXPECT_EQ(Make("adagrad { initial_accumulator_value: 0 } clip_value: 1")->initial_slot(1), 0);
  EXPECT_EQ(Make("ftrl {} clip_value: 1")->initial_slot(1), 0.1f);
  EXPECT_EQ(Make("ftrl {}")->initial_slot(2), 0);
  EXPECT_EQ(Make("adam {}")->initial_slot(2), 0);
}

// Elements that have had no gradient yet: 0 / 0, and Keras's values are not numbers then.
TEST(FtrlTest, ElementsWithoutGradientsAreZeroAlsoWithoutAnInitialAccumulator) {
  for (const char* power : {"-0.5", "-0.7", "-3"}) {
    const std::unique_ptr<Optimizer> optimizer = Make(
        absl::StrCat("ftrl { initial_accumulator_value: 0 learning_rate_power: ", power, " }"));
    Block block(*optimizer, {1, 2});
    block.ApplyInPlace(*optimizer, 1, {0, 1});
    EXPECT_EQ(block.values()[0], 0) << power;
    EXPECT_TRUE(std::isfinite(block.values()[1])) << power;
  }
}

TEST(ClippingTest, ElementsBeyondTheBoundsCountAsTheBounds) {
  const std::unique_ptr<Optimizer> optimizer = Make("sgd { learning_rate: 1 } clip_value: 2");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Block block(*optimizer, Floats(7, 0));
  block.ApplyInPlace(*optimizer, 1, {-3, -2, -1.5, 0, 2, 2.5, kInfinity});
  EXPECT_THAT(block.values(), ElementsAre(2, 2, 1.5, 0, -2, -2, -2));
}

TEST(MakeOptimizerTest, RefusesHyperparametersByPath) {
  OptimizerSpec spec;
  EXPECT_EQ(MakeOptimizer(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec.mutable_sgd()->set_momentum(1);
  const absl::Status status = MakeOptimizer(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("optimizer.sgd.momentum: 1;"));
}

}  // namespace
}  // namespace millrace::ps
