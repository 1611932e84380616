// Schedules against the rates that Keras computes (testing/reference/learning_rates.py).
#include "ps/optimizer/learning_rate.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

constexpr double kInitialRate = 0.5;  // As in the table.

LearningRate MakeLearningRate(const std::string& text) {
  LearningRateSchedule schedule;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &schedule)) << text;
  return LearningRate(kInitialRate, schedule);
}

struct RateTable {
  std::vector<uint64_t> updates;
  std::map<std::string, std::vector<double>> cases;
};

RateTable ReadRateTable() {
  std::ifstream file("testing/reference/learning_rates.txt");
  CHECK(file.is_open()) << "testing/reference/learning_rates.txt is not among the test's data";
  RateTable table;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    for (double number; line >> number;) {
      if (name == "updates") {
        table.updates.push_back(static_cast<uint64_t>(number));
      } else {
        table.cases[name == "{}" ? "" : name].push_back(number);
      }
    }
  }
  return table;
}

TEST(LearningRateTest, AgreesWithKeras) {
  const RateTable table = ReadRateTable();
  ASSERT_GE(table.cases.size(), 19u);
  for (const auto& [text, expected] : table.cases) {
    const LearningRate rate = MakeLearningRate(text);
    ASSERT_EQ(expected.size(), table.updates.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(rate.At(table.updates[i] + 1), expected[i],
                  1e-12 * std::max(kInitialRate, expected[i]))
          << text << ", update " << table.updates[i];
    }
  }
}

TEST(LearningRateTest, ConstantRatesAreThatToTheBitAtEveryVersion) {
  const LearningRate rate = MakeLearningRate("");
  for (const uint64_t version : {uint64_t{1}, uint64_t{1000}, uint64_t{1} << 60}) {
    EXPECT_EQ(rate.At(version), kInitialRate);
  }
}

TEST(LearningRateTest, WarmUpEndsAtTheRateThatItBeginsAFactorOf) {
  const LearningRate rate = MakeLearningRate("warmup { steps: 4 from: 0.5 }");
  EXPECT_EQ(rate.At(1), 0.25);
  EXPECT_EQ(rate.At(3), 0.375);
  EXPECT_EQ(rate.At(5), 0.5);
  EXPECT_EQ(rate.At(1000), 0.5);
}

// Where rounding decides in which cycle an update is, Keras takes the end of the one before.
TEST(LearningRateTest, CyclesBeginAtTheHighestRate) {
  const LearningRate doubled = MakeLearningRate("cosine_restarts { first_decay_steps: 3 }");
  const LearningRate equal = MakeLearningRate("cosine_restarts { first_decay_steps: 3 t_mul: 1 }");
  for (uint64_t cycle = 0; cycle < 40; ++cycle) {
    EXPECT_EQ(doubled.At(3 * ((uint64_t{1} << cycle) - 1) + 1), kInitialRate) << cycle;
    EXPECT_EQ(equal.At(3 * cycle + 1), kInitialRate) << cycle;
  }
}

TEST(LearningRateTest, CyclesThatHardlyGrowAreFine) {
  const LearningRate rate =
      MakeLearningRate("cosine_restarts { first_decay_steps: 10 t_mul: 1.0000000000001 }");
  for (uint64_t version = 1; version < 1000; ++version) {
    EXPECT_GE(rate.At(version), 0);
    EXPECT_LE(rate.At(version), kInitialRate);
  }
  EXPECT_LE(rate.At(uint64_t{1} << 53), kInitialRate);
}

TEST(LearningRateTest, RatesStayInTheirRangeAtHugeVersions) {
  for (const char* text : {"exponential_decay { decay_steps: 1 decay_rate: 0.9 }",
                           "exponential_decay { decay_steps: 1 decay_rate: 0.9 staircase: true }",
                           "inverse_time_decay { decay_steps: 1 decay_rate: 1e30 }",
                           "inverse_time_decay { decay_steps: 1 decay_rate: 0 staircase: true }",
                           "polynomial_decay { decay_steps: 3 cycle: true power: 0.5 }",
                           "cosine_decay { decay_steps: 7 alpha: 0.5 }",
                           "cosine_restarts { first_decay_steps: 1 t_mul: 1000 }"}) {
    const double rate = MakeLearningRate(text).At(uint64_t{1} << 53);
    EXPECT_GE(rate, 0) << text;
    EXPECT_LE(rate, kInitialRate) << text;
  }
}

}  // namespace
}  // namespace millrace::ps
