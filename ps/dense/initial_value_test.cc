#include "ps/dense/initial_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kKinds[] = {
    "constant: 0.5",
    "uniform { low: -0.25 high: 0.75 }",
    "truncated_normal { stddev: 3 }",
};

InitialValue Parse(const std::string& text) {
  InitialValue initial_value;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &initial_value)) << text;
  EXPECT_TRUE(CheckInitialValue(initial_value, "v").ok()) << text;
  return initial_value;
}

std::vector<float> Fill(const std::string& text, size_t count, uint64_t offset = 0,
                        uint64_t seed = 1, const std::string& name = "dense/kernel") {
  std::vector<float> values(count, -1000);
  FillInitialValues(Parse(text), seed, name, offset, absl::MakeSpan(values));
  return values;
}

double Moment(const std::vector<float>& values, int power) {
  double sum = 0;
  for (const float value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

TEST(InitialValueTest, ElementsDoNotDependOnHowTheVariableIsDivided) {
  for (const char* kind : kKinds) {
    const std::vector<float> whole = Fill(kind, 1000);
    for (const size_t part : {1, 7, 256}) {
      std::vector<float> parts;
      for (size_t offset = 0; offset < whole.size(); offset += part) {
        const std::vector<float> values = Fill(kind, std::min(part, whole.size() - offset), offset);
        parts.insert(parts.end(), values.begin(), values.end());
      }
      EXPECT_EQ(parts, whole) << kind << " in parts of " << part;
    }
  }
}

TEST(InitialValueTest, ConstantFills) {
  EXPECT_THAT(Fill("constant: 0.5", 10), Each(0.5f));
  EXPECT_THAT(Fill("constant: 0", 10), Each(0.0f));
}

TEST(InitialValueTest, UniformHasTheMomentsOfTheory) {
  constexpr size_t kCount = 1 << 20;
  const std::vector<float> values = Fill("uniform { low: -1 high: 1 }", kCount);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
  // Five standard errors of each estimate.
  EXPECT_NEAR(Moment(values, 1), 0, 5 * std::sqrt(1. / 3 / kCount));
  EXPECT_NEAR(Moment(values, 2), 1. / 3, 5 * std::sqrt(4. / 45 / kCount));
  EXPECT_NEAR(Moment(values, 4), 1. / 5, 5 * std::sqrt(16. / 225 / kCount));
}

TEST(InitialValueTest, TruncatedNormalHasTheMomentsOfTheory) {
  constexpr size_t kCount = 1 << 20;
  const std::vector<float> values = Fill("truncated_normal { stddev: 1 }", kCount);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -2);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 2);
  // Keras's constant: the standard deviation that truncation leaves.
  const double variance = 0.87962566103423978 * 0.87962566103423978;
  // Of the normal distribution within [-2, 2]: 3 * variance - 2^3 * 2 pdf(2) / (cdf(2) - cdf(-2)).
  const double pdf = std::exp(-2.) / std::sqrt(2 * M_PI);
  const double inside = std::erf(std::sqrt(2.));
  const double fourth = 3 * variance - 16 * pdf / inside;
  EXPECT_NEAR(variance, 1 - 4 * pdf / inside, 1e-12);
  EXPECT_NEAR(Moment(values, 1), 0, 5 * std::sqrt(variance / kCount));
  EXPECT_NEAR(Moment(values, 2), variance, 5 * std::sqrt((fourth - variance * variance) / kCount));
  EXPECT_NEAR(Moment(values, 3), 0, 5 * std::sqrt(6.0 / kCount));
  EXPECT_NEAR(Moment(values, 4), fourth, 5 * std::sqrt(10.0 / kCount));
}

// A histogram against the distribution's own shares.
TEST(InitialValueTest, TruncatedNormalHasItsShape) {
  constexpr size_t kCount = 1 << 18;
  constexpr int kBins = 16;
  const std::vector<float> values = Fill("truncated_normal { stddev: 1 }", kCount);
  std::vector<double> counts(kBins);
  for (const float value : values) {
    counts[std::min<int>(kBins - 1, static_cast<int>((value + 2) * kBins / 4))] += 1;
  }
  double chi_squared = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    const double low = -2 + 4.0 * bin / kBins;
    const double high = low + 4.0 / kBins;
    const double expected =
        kCount * (std::erf(high / M_SQRT2) - std::erf(low / M_SQRT2)) / (2 * std::erf(M_SQRT2));
    chi_squared += (counts[bin] - expected) * (counts[bin] - expected) / expected;
  }
  EXPECT_LT(chi_squared, 44.3);  // 15 degrees of freedom, one in ten thousand.
}

TEST(InitialValueTest, NeighboursAreNotCorrelated) {
  for (const char* kind : {"uniform { low: -1 high: 1 }", "truncated_normal { stddev: 1 }"}) {
    constexpr size_t kCount = 1 << 18;
    const std::vector<float> values = Fill(kind, kCount + 1);
    double sum = 0;
    for (size_t i = 0; i < kCount; ++i) sum += values[i] * values[i + 1];
    EXPECT_NEAR(sum / kCount / Moment(values, 2), 0, 5 / std::sqrt(kCount)) << kind;
  }
}

TEST(InitialValueTest, NameAndSeedMatter) {
  for (const char* kind : {kKinds[1], kKinds[2]}) {
    std::set<std::vector<float>> all;
    for (const char* name : {"", "a", "b", "dense/kernel", "dense/kernfl", "dense_1/kernel"}) {
      for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63}) {
        all.insert(Fill(kind, 8, /*offset=*/0, seed, name));
      }
    }
    EXPECT_EQ(all.size(), 18u) << kind;
  }
}

TEST(InitialValueTest, UniformStaysBelowItsUpperBound) {
  // The two are neighbours: rounding would give the upper one half of the time.
  const float low = 1;
  const float high = std::nextafter(low, 2.0f);
  InitialValue initial_value;
  initial_value.mutable_uniform()->set_low(low);
  initial_value.mutable_uniform()->set_high(high);
  std::vector<float> values(1000);
  FillInitialValues(initial_value, 1, "v", 0, absl::MakeSpan(values));
  EXPECT_THAT(values, Each(low));
  EXPECT_THAT(Fill("uniform { low: 3 high: 3 }", 10), Each(3.0f));
}

// Runs that are repeated rely on these never changing. Computed with an implementation of their own
// in Python: the seed as Philox's key, the element and FNV-1a of the name as its counter.
TEST(InitialValueTest, ValuesArePinned) {
  EXPECT_THAT(Fill("uniform { low: -1 high: 1 }", 4),
              ElementsAre(0.792744935f, -0.406853855f, -0.037043266f, 0.583909094f));
  EXPECT_THAT(Fill("truncated_normal { stddev: 1 }", 4, /*offset=*/uint64_t{1} << 40),
              ElementsAre(-1.73942518f, 0.148697108f, 0.91572243f, -0.363222152f));
}

TEST(InitialValueTest, CheckNamesWhatIsWrong) {
  const auto error = [](const InitialValue& initial_value) {
    const absl::Status status = CheckInitialValue(initial_value, "variables[3].initial_value");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  InitialValue initial_value;
  EXPECT_THAT(error(initial_value), HasSubstr("variables[3].initial_value: not set"));
  initial_value.set_constant(nan);
  EXPECT_THAT(error(initial_value), HasSubstr(".constant: nan; must be finite"));
  initial_value.mutable_uniform()->set_low(1);
  EXPECT_THAT(error(initial_value), HasSubstr(".uniform: from 1 to 0;"));
  initial_value.mutable_uniform()->set_low(nan);
  EXPECT_THAT(error(initial_value), HasSubstr(".uniform: from nan to 0;"));
  const float infinity = std::numeric_limits<float>::infinity();
  initial_value.mutable_uniform()->set_low(-infinity);
  EXPECT_THAT(error(initial_value), HasSubstr(".uniform: from -inf to 0;"));
  initial_value.mutable_uniform()->set_low(0);
  initial_value.mutable_uniform()->set_high(infinity);
  EXPECT_THAT(error(initial_value), HasSubstr(".uniform: from 0 to inf;"));
  initial_value.mutable_truncated_normal()->set_stddev(-1);
  EXPECT_THAT(error(initial_value), HasSubstr(".truncated_normal.stddev: -1;"));
  initial_value.mutable_truncated_normal()->set_stddev(infinity);
  EXPECT_THAT(error(initial_value), HasSubstr(".truncated_normal.stddev: inf;"));
  initial_value.mutable_truncated_normal()->set_stddev(0);
  EXPECT_TRUE(CheckInitialValue(initial_value, "").ok());
}

}  // namespace
}  // namespace millrace::ps
