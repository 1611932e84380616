#include "worker/device/cpu/layers/column_statistics.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/cpu/thread_settings.h"

namespace millrace::worker {
namespace {

std::vector<float> NormalNumbers(size_t count, float mean, float deviation) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = distribution(random);
  return numbers;
}

struct Statistics {
  std::vector<float> means;
  std::vector<float> variances;
};

Statistics StatisticsOf(const std::vector<float>& matrix, size_t columns, int threads = 1) {
  const ScopedThreadSettings settings(threads);
  Statistics statistics{std::vector<float>(columns), std::vector<float>(columns)};
  ColumnStatistics().Compute(matrix.data(), matrix.size() / columns, columns,
                             statistics.means.data(), statistics.variances.data());
  return statistics;
}

// Each column by itself, in float64.
void ExpectStatisticsOf(const std::vector<float>& matrix, size_t columns) {
  const Statistics actual = StatisticsOf(matrix, columns);
  const size_t rows = matrix.size() / columns;
  for (size_t column = 0; column < columns; ++column) {
    double mean = 0;
    for (size_t row = 0; row < rows; ++row) mean += matrix[row * columns + column];
    mean /= static_cast<double>(rows);
    double variance = 0;
    for (size_t row = 0; row < rows; ++row) {
      variance += std::pow(matrix[row * columns + column] - mean, 2);
    }
    variance /= static_cast<double>(rows);
    EXPECT_NEAR(actual.means[column], mean, 1e-6 * std::abs(mean) + 1e-6) << rows << " " << column;
    EXPECT_NEAR(actual.variances[column], variance, 1e-5 * variance) << rows << " " << column;
  }
}

TEST(ColumnStatisticsTest, AreThoseOfEachColumn) {
  for (const size_t columns : {1, 2, 3, 7, 16, 17, 63, 64, 65, 130, 700}) {
    for (const size_t rows : {1, 2, 31, 33, 64, 511, 512, 513, 1200}) {
      ExpectStatisticsOf(NormalNumbers(rows * columns, 1, 2), columns);
    }
  }
}

// Added up one after the other in float32, the variance of the first was 1.43.
TEST(ColumnStatisticsTest, AreAsExactOfManyRowsThatAreFarFromZero) {
  for (const size_t columns : {1, 3, 16}) {
    ExpectStatisticsOf(NormalNumbers(512 * 3136, 100, 1), columns);
  }
}

// Each of the sums of equal numbers is rounded in the same direction.
TEST(ColumnStatisticsTest, OfAColumnThatIsAllTheSameTheMeanIsThat) {
  for (const float value : {0.1f, 1000.1f}) {
    for (const size_t columns : {1, 3, 64}) {
      const Statistics actual = StatisticsOf(std::vector<float>(columns * 5000, value), columns);
      for (size_t column = 0; column < columns; ++column) {
        EXPECT_NEAR(actual.means[column], value, 1e-6 * value);
        EXPECT_LT(actual.variances[column], 1e-12 * value * value);
      }
    }
  }
}

TEST(ColumnStatisticsTest, HaveTheSameBitsWithAnyNumberOfThreads) {
  for (const size_t columns : {1, 5, 100}) {
    const std::vector<float> matrix = NormalNumbers(columns * 5000, 3, 1);
    const Statistics expected = StatisticsOf(matrix, columns);
    for (const int threads : {2, 3, 7}) {
      const Statistics actual = StatisticsOf(matrix, columns, threads);
      EXPECT_EQ(actual.means, expected.means) << threads;
      EXPECT_EQ(actual.variances, expected.variances) << threads;
    }
  }
}

TEST(ColumnStatisticsTest, WhatIsNoNumberStaysInItsColumn) {
  std::vector<float> matrix(3 * 1000, 2.0f);
  matrix[3 * 700 + 1] = std::numeric_limits<float>::quiet_NaN();
  const auto [means, variances] = StatisticsOf(matrix, 3);
  EXPECT_EQ(means[0], 2);
  EXPECT_EQ(variances[0], 0);
  EXPECT_TRUE(std::isnan(means[1]));
  EXPECT_TRUE(std::isnan(variances[1]));
  EXPECT_EQ(means[2], 2);
}

}  // namespace
}  // namespace millrace::worker
