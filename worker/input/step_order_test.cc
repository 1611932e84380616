#include "worker/input/step_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr uint64_t kSeed = 42;

// All examples of an epoch, in order.
std::vector<uint64_t> Epoch(const StepOrder& order, uint64_t epoch) {
  std::vector<uint64_t> all;
  for (uint64_t batch = 0; batch < order.steps_per_epoch(); ++batch) {
    const std::vector<uint64_t> step = order.Examples(epoch * order.steps_per_epoch() + batch);
    all.insert(all.end(), step.begin(), step.end());
  }
  return all;
}

bool IsPermutation(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] != i) return false;
  }
  return true;
}

TEST(StepOrderTest, EachEpochHasEachExampleOnce) {
  for (const uint64_t examples : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100, 1000, 1024, 8000}) {
    for (const uint64_t batch_size : {1, 3, 64, 10000}) {
      const StepOrder order(examples, batch_size, kSeed, /*shuffle=*/true);
      EXPECT_EQ(order.steps_per_epoch(), (examples + batch_size - 1) / batch_size);
      for (const uint64_t epoch : {0, 1, 7}) {
        const std::vector<uint64_t> all = Epoch(order, epoch);
        ASSERT_EQ(all.size(), examples);
        EXPECT_TRUE(IsPermutation(all)) << examples << " examples, epoch " << epoch;
      }
    }
  }
}

TEST(StepOrderTest, LastBatchOfAnEpochMayBeShort) {
  const StepOrder order(10, 4, kSeed, /*shuffle=*/true);
  EXPECT_EQ(order.steps_per_epoch(), 3u);
  EXPECT_THAT(order.Examples(1), SizeIs(4));
  EXPECT_THAT(order.Examples(2), SizeIs(2));
  EXPECT_THAT(order.Examples(3), SizeIs(4));
}

TEST(StepOrderTest, UnshuffledIsFileOrderInEveryEpoch) {
  const StepOrder order(5, 2, kSeed, /*shuffle=*/false);
  EXPECT_THAT(order.Examples(0), ElementsAre(0, 1));
  EXPECT_THAT(order.Examples(2), ElementsAre(4));
  EXPECT_THAT(order.Examples(4), ElementsAre(2, 3));
}

TEST(StepOrderTest, EpochsAndSeedsDiffer) {
  const StepOrder order(1000, 100, kSeed, /*shuffle=*/true);
  EXPECT_NE(Epoch(order, 0), Epoch(order, 1));
  EXPECT_NE(Epoch(order, 0), Epoch(StepOrder(1000, 100, kSeed + 1, /*shuffle=*/true), 0));
  EXPECT_EQ(Epoch(order, 3), Epoch(StepOrder(1000, 100, kSeed, /*shuffle=*/true), 3));
}

TEST(StepOrderTest, BatchSizeOnlyCutsTheSameOrder) {
  EXPECT_EQ(Epoch(StepOrder(1000, 64, kSeed, /*shuffle=*/true), 2),
            Epoch(StepOrder(1000, 7, kSeed, /*shuffle=*/true), 2));
}

// A job that is continued by a newer release must see the same examples. The values were computed
// by a second implementation, in Python.
TEST(StepOrderTest, OrderNeverChangesBetweenReleases) {
  const StepOrder order(10000, 8, /*seed=*/1, /*shuffle=*/true);
  EXPECT_THAT(order.Examples(0), ElementsAre(7315, 4485, 1618, 5916, 4086, 5875, 941, 8317));
  EXPECT_THAT(order.Examples(12345), ElementsAre(1824, 4284, 7555, 7664, 6178, 4367, 6707, 5471));
  EXPECT_THAT(StepOrder(3, 3, 0, /*shuffle=*/true).Examples(5), ElementsAre(0, 1, 2));
}

TEST(StepOrderTest, WorksFarOutAndForHugeSets) {
  const uint64_t examples = (uint64_t{1} << 63) + 12345;
  const StepOrder order(examples, 4, kSeed, /*shuffle=*/true);
  for (const uint64_t example : order.Examples(order.steps_per_epoch() + 1)) {
    EXPECT_LT(example, examples);
  }
  EXPECT_TRUE(IsPermutation(Epoch(StepOrder(100, 100, kSeed, true), uint64_t{1} << 60)));
}

// Pearson's chi-square of counts that should be equal, and its value that one run in ten thousand
// exceeds (normal approximation of Wilson and Hilferty).
double ChiSquare(const std::vector<uint64_t>& counts, double expected) {
  double sum = 0;
  for (const uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

double ChiSquareLimit(double degrees) {
  const double spread = 2 / (9 * degrees);
  const double root = 1 - spread + 3.719 * std::sqrt(spread);
  return degrees * root * root * root;
}

TEST(StepOrderTest, EachExampleIsEquallyOftenAtEachPlace) {
  constexpr uint64_t kEpochs = 20000;
  for (const uint64_t examples : {2, 3, 5, 13, 50}) {
    const StepOrder order(examples, examples, kSeed, /*shuffle=*/true);
    std::vector<std::vector<uint64_t>> counts(examples, std::vector<uint64_t>(examples));
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<uint64_t> all = order.Examples(epoch);
      for (uint64_t place = 0; place < examples; ++place) ++counts[place][all[place]];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(examples);
    for (const uint64_t place : {uint64_t{0}, examples / 2, examples - 1}) {
      EXPECT_LT(ChiSquare(counts[place], expected),
                ChiSquareLimit(static_cast<double>(examples - 1)))
          << examples << " examples, place " << place;
    }
  }
}

TEST(StepOrderTest, AllOrdersOfAFewExamplesAreEquallyLikely) {
  constexpr uint64_t kEpochs = 60000;
  const StepOrder order(5, 5, kSeed, /*shuffle=*/true);
  std::vector<std::vector<uint64_t>> orders;
  std::vector<uint64_t> permutation = {0, 1, 2, 3, 4};
  do {
    orders.push_back(permutation);
  } while (std::next_permutation(permutation.begin(), permutation.end()));
  std::vector<uint64_t> counts(orders.size());
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[std::lower_bound(orders.begin(), orders.end(), order.Examples(epoch)) -
             orders.begin()];
  }
  EXPECT_LT(ChiSquare(counts, kEpochs / 120.0), ChiSquareLimit(119));
}

}  // namespace
}  // namespace millrace::worker
