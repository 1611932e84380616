// Optimizers that take norms of variables: against Keras's (testing/reference/norms.py), and their
// sums, which must be the same bits everywhere.
#include "ps/optimizer/norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

using Numbers = std::vector<float>;

std::unique_ptr<Optimizer> MakeNormed(const std::string& text) {
  OptimizerSpec spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  auto optimizer = MakeOptimizer(spec);
  CHECK(optimizer.ok()) << optimizer.status();
  CHECK_GT((*optimizer)->passes(), 0) << text;
  return *std::move(optimizer);
}

// A variable with its slots.
class WholeVariable {
 public:
  WholeVariable(const Optimizer& optimizer, const Numbers& values) : arrays_(1, values) {
    for (int slot = 1; slot <= optimizer.slots(); ++slot) {
      arrays_.emplace_back(values.size(), optimizer.initial_slot(slot));
    }
  }

  const Numbers& values() const { return arrays_[0]; }

  void Apply(const Optimizer& optimizer, uint64_t version, const Numbers& gradient) {
    std::vector<float*> arrays;
    for (Numbers& array : arrays_) arrays.push_back(array.data());
    optimizer.Apply(version, reinterpret_cast<const char*>(gradient.data()), gradient.size(),
                    arrays.data(), arrays.data());
  }

 private:
  std::vector<Numbers> arrays_;
};

struct NormTable {
  std::vector<size_t> lengths;
  std::vector<Numbers> start;                   // By variable.
  std::vector<std::vector<Numbers>> gradients;  // By step and variable.
  std::map<std::string, std::vector<std::vector<Numbers>>> cases;
};

std::vector<Numbers> Divide(const Numbers& all, const std::vector<size_t>& lengths) {
  std::vector<Numbers> parts;
  auto begin = all.begin();
  for (const size_t length : lengths) {
    parts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
    begin += static_cast<std::ptrdiff_t>(length);
  }
  CHECK(begin == all.end());
  return parts;
}

NormTable ReadNormTable() {
  std::ifstream file("testing/reference/norms.txt");
  CHECK(file.is_open()) << "testing/reference/norms.txt is not among the test's data";
  NormTable table;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    Numbers numbers;
    for (float number; line >> number;) numbers.push_back(number);
    if (name == "lengths") {
      table.lengths.assign(numbers.begin(), numbers.end());
    } else if (name == "start") {
      table.start = Divide(numbers, table.lengths);
    } else if (name == "gradient") {
      table.gradients.push_back(Divide(numbers, table.lengths));
    } else {
      table.cases[name].push_back(Divide(numbers, table.lengths));
    }
  }
  return table;
}

TEST(NormedOptimizerTest, AgreesWithKerasOnSeveralVariables) {
  const NormTable table = ReadNormTable();
  ASSERT_GE(table.cases.size(), 10u);
  for (const auto& [text, expected] : table.cases) {
    SCOPED_TRACE(text);
    const std::unique_ptr<Optimizer> optimizer = MakeNormed(text);
    ASSERT_EQ(expected.size(), table.gradients.size());
    for (size_t v = 0; v < table.lengths.size(); ++v) {
      WholeVariable variable(*optimizer, table.start[v]);
      Numbers largest(table.lengths[v]);  // Of each element so far: what errors are relative to.
      for (size_t step = 0; step < expected.size(); ++step) {
        variable.Apply(*optimizer, step + 1, table.gradients[step][v]);
        for (size_t i = 0; i < largest.size(); ++i) {
          const float keras = expected[step][v][i];
          largest[i] = std::max({largest[i], std::abs(keras), std::abs(table.start[v][i])});
          EXPECT_NEAR(variable.values()[i], keras, 1e-6f * largest[i])
              << "variable " << v << ", step " << step << ", element " << i;
        }
      }
    }
  }
}

Numbers NormalNumbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers result(count);
  for (float& value : result) value = normal(random);
  return result;
}

const char* BytesOf(const Numbers& numbers) {
  return reinterpret_cast<const char*>(numbers.data());
}

TEST(SquareSumTest, IsTheFormulaHoweverTheNumbersCome) {
  const Numbers numbers = NormalNumbers(10'007, 1);
  double lanes[SquareSum::kLanes] = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    lanes[i % SquareSum::kLanes] += static_cast<double>(numbers[i]) * numbers[i];
  }
  double expected = 0;
  for (const double lane : lanes) expected += lane;
  for (const size_t part : {size_t{16}, size_t{160}, size_t{4096}, numbers.size()}) {
    SquareSum sum;
    for (size_t begin = 0; begin < numbers.size(); begin += part) {
      sum.Add(BytesOf(numbers) + begin * sizeof(float), std::min(part, numbers.size() - begin));
    }
    EXPECT_EQ(sum.Total(), expected) << "in parts of " << part;
  }
  std::vector<char> shifted(1 + numbers.size() * sizeof(float));
  std::memcpy(shifted.data() + 1, numbers.data(), numbers.size() * sizeof(float));
  SquareSum sum;
  sum.Add(shifted.data() + 1, numbers.size());
  EXPECT_EQ(sum.Total(), expected);
}

TEST(SquareSumTest, SquaresBeyondFloat32Count) {
  SquareSum sum;
  sum.Add(BytesOf({1e30f, -1e-30f}), 2);
  EXPECT_EQ(sum.Total(), static_cast<double>(1e30f) * 1e30f + 1e-60);
  EXPECT_EQ(SquareSum().Total(), 0);
}

TEST(ClipNormTest, GradientWithinTheNormStaysAsItIsToTheBit) {
  const std::unique_ptr<Optimizer> optimizer = MakeNormed("sgd { learning_rate: 1 } clip_norm: 5");
  WholeVariable variable(*optimizer, {0, 0});
  variable.Apply(*optimizer, 1, {3, 4});
  EXPECT_THAT(variable.values(), ElementsAre(-3, -4));
  variable.Apply(*optimizer, 2, {30, 40});
  EXPECT_THAT(variable.values(), ElementsAre(-6, -8));
}

TEST(ClipNormTest, ZeroGradientStaysZero) {
  const std::unique_ptr<Optimizer> optimizer = MakeNormed("adam {} clip_norm: 1e-30");
  WholeVariable variable(*optimizer, {1, 2});
  variable.Apply(*optimizer, 1, {0, 0});
  EXPECT_THAT(variable.values(), ElementsAre(1, 2));
}

// The square of its norm is no float32, and neither is the factor.
TEST(ClipNormTest, HugeGradientIsClippedToTheNorm) {
  const std::unique_ptr<Optimizer> optimizer =
      MakeNormed("sgd { learning_rate: 1 } clip_norm: 1e-10");
  WholeVariable variable(*optimizer, {0, 0});
  variable.Apply(*optimizer, 1, {3e38f, 0});
  EXPECT_THAT(variable.values(), ElementsAre(-1e-10f, 0));
}

TEST(LambTest, StepIsInProportionToTheVariable) {
  const std::unique_ptr<Optimizer> optimizer = MakeNormed("lamb { learning_rate: 0.5 }");
  for (const float scale : {1e-20f, 1.0f, 1e20f}) {
    WholeVariable variable(*optimizer, {3 * scale, 4 * scale});
    variable.Apply(*optimizer, 1, {1, -1});
    EXPECT_NEAR(variable.values()[0] / scale, 3 - 0.5 * 5 / std::sqrt(2), 1e-5);
    EXPECT_NEAR(variable.values()[1] / scale, 4 + 0.5 * 5 / std::sqrt(2), 1e-5);
  }
}

// The ratio of the norms is no float32 then.
TEST(LambTest, TinyStepsOfAHugeVariableAreFine) {
  const std::unique_ptr<Optimizer> optimizer =
      MakeNormed("lamb { learning_rate: 0.5 epsilon: 1e30 }");
  WholeVariable variable(*optimizer, {1e20f, 0});
  variable.Apply(*optimizer, 1, {1, 0});
  EXPECT_NEAR(variable.values()[0], 0.5e20, 1e14);
  EXPECT_EQ(variable.values()[1], 0);
}

TEST(LambTest, HugeVersionsAreFine) {
  const std::unique_ptr<Optimizer> optimizer = MakeNormed("lamb {}");
  WholeVariable variable(*optimizer, Numbers(100, 1));
  variable.Apply(*optimizer, uint64_t{1} << 60, Numbers(100, 1));
  EXPECT_THAT(variable.values(), Each(variable.values().front()));
  EXPECT_LT(variable.values().front(), 1);
  EXPECT_TRUE(std::isfinite(variable.values().front()));
}

// A processor with wider or fused operations must not use them otherwise. The bits are those of
// NumPy, which does each operation by itself.
TEST(LambTest, BitsAreTheSameEverywhere) {
  const std::unique_ptr<Optimizer> optimizer =
      MakeNormed("lamb { learning_rate: 0.1 } clip_norm: 1");
  Numbers values(1000);
  Numbers gradient(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 37) / 8 - 2;
    gradient[i] = static_cast<float>(i % 101) / 16 - 3;
  }
  WholeVariable variable(*optimizer, values);
  for (uint64_t version = 1; version <= 3; ++version) variable.Apply(*optimizer, version, gradient);
  EXPECT_EQ(variable.values()[1], -0x1.76430cp+0f);
  EXPECT_EQ(variable.values()[500], -0x1.379eap-5f);
  EXPECT_EQ(variable.values()[999], -0x1.34de7ap+1f);
}

}  // namespace
}  // namespace millrace::ps
