// A slice's own rule: the moving average against the values that Keras 3 computes
// (testing/reference/moving_average.py), to the bit.
#include <cstddef>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::unique_ptr<Optimizer> MakeAverage(double momentum, int slots) {
  UpdateRule rule;
  rule.mutable_moving_average()->set_momentum(momentum);
  auto made = MakeSliceRule(rule, slots, "update");
  CHECK(made.ok()) << made.status();
  return *std::move(made);
}

struct Line {
  std::string name;
  std::vector<float> numbers;
};

std::vector<Line> ReadLines(const std::string& path) {
  std::ifstream file(path);
  CHECK(file.is_open()) << path << " is not among the test's data";
  std::vector<Line> lines;
  std::string text;
  while (std::getline(file, text)) {
    std::istringstream words(text);
    Line line;
    words >> line.name;
    for (float number; words >> number;) line.numbers.push_back(number);
    lines.push_back(line);
  }
  return lines;
}

void ApplyAverage(const Optimizer& rule, const std::vector<float>& statistic,
                  std::vector<float>* values, std::vector<float>* out) {
  const float* const in[] = {values->data()};
  float* const to[] = {out->data()};
  rule.Apply(/*version=*/1, reinterpret_cast<const char*>(statistic.data()), values->size(), in,
             to);
}

TEST(MovingAverageTest, IsKerasToTheBit) {
  const std::vector<Line> lines = ReadLines("testing/reference/moving_average.txt");
  std::vector<std::vector<float>> statistics;
  std::vector<float> values;
  size_t step = 0;
  int compared = 0;
  for (const Line& line : lines) {
    if (line.name == "start") continue;
    if (line.name == "statistic") {
      statistics.push_back(line.numbers);
      continue;
    }
    if (step == 0) values = lines.front().numbers;
    ApplyAverage(*MakeAverage(std::stod(line.name), /*slots=*/0), statistics[step], &values,
                 &values);
    EXPECT_EQ(values, line.numbers) << "momentum " << line.name << ", step " << step;
    step = (step + 1) % statistics.size();
    ++compared;
  }
  EXPECT_EQ(compared, 5 * 12);
}

// The buffer of a new block has been another one's.
TEST(MovingAverageTest, SlotsAreCopied) {
  const std::unique_ptr<Optimizer> rule = MakeAverage(0.5, /*slots=*/2);
  EXPECT_EQ(rule->slots(), 2);
  const std::vector<float> statistic(100, 4);
  std::vector<std::vector<float>> from = {std::vector<float>(100, 2), std::vector<float>(100, 7),
                                          std::vector<float>(100, 8)};
  std::vector<std::vector<float>> to(3, std::vector<float>(100, -1));
  const float* const in[] = {from[0].data(), from[1].data(), from[2].data()};
  float* const out[] = {to[0].data(), to[1].data(), to[2].data()};
  rule->Apply(1, reinterpret_cast<const char*>(statistic.data()), 100, in, out);
  EXPECT_THAT(to[0], Each(3));
  EXPECT_THAT(to[1], Each(7));
  EXPECT_THAT(to[2], Each(8));
}

TEST(SliceRuleTest, FrozenSliceHasNoneAndAWrongOneIsNamed) {
  UpdateRule rule;
  rule.mutable_frozen();
  const auto frozen = MakeSliceRule(rule, 0, "path");
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  EXPECT_EQ(*frozen, nullptr);
  rule.mutable_moving_average()->set_momentum(1);
  const absl::Status status = MakeSliceRule(rule, 0, "path").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("path.moving_average.momentum: 1; must be at least 0 and below 1"));
}

}  // namespace
}  // namespace millrace::ps
