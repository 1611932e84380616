#include "worker/device/cuda/kernels/testing/differences.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

constexpr double kStep = 1e-6;
constexpr double kSmall = 0.1;  // Numbers below it may be as wrong as it.

// The derivative of `objective` along `direction`, in float64.
double Quotient(const Doubles& direction, Doubles* values,
                const std::function<double()>& objective) {
  const Doubles kept = *values;
  const auto at = [&](double step) {
    for (size_t i = 0; i < kept.size(); ++i) (*values)[i] = kept[i] + step * direction[i];
    return objective();
  };
  const double above = at(kStep), below = at(-kStep);
  *values = kept;
  return (above - below) / (2 * kStep);
}

Doubles QuotientsOfEach(Doubles* values, const std::function<double()>& objective) {
  Doubles quotients;
  for (double& value : *values) {
    const double kept = value;
    value = kept + kStep;
    const double above = objective();
    value = kept - kStep;
    quotients.push_back((above - objective()) / (2 * kStep));
    value = kept;
  }
  return quotients;
}

// What rounding makes of the sum is about as much as of its numbers' root of the sum of squares.
void ExpectQuotientOfAll(const std::vector<float>& gradient, Doubles* values,
                         const std::function<double()>& objective, double tolerance) {
  std::mt19937 random(29);
  Doubles direction;
  double sum = 0, squares = 0;
  for (const double slope : gradient) {
    direction.push_back(random() % 2 == 0 ? 1 : -1);
    sum += direction.back() * slope;
    squares += slope * slope;
  }
  const double least = kSmall * std::sqrt(static_cast<double>(gradient.size()));
  EXPECT_NEAR(sum, Quotient(direction, values, objective),
              tolerance * std::max(std::sqrt(squares), least));
}

}  // namespace

void ExpectNumbers(const std::vector<float>& actual, const Doubles& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = kSmall;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << i << " of " << expected.size();
  }
}

void ExpectDifferenceQuotients(const std::vector<float>& gradient, Doubles* values,
                               const std::function<double()>& objective, Steps steps,
                               double tolerance) {
  ASSERT_EQ(gradient.size(), values->size());
  if (steps == Steps::kTogether) {
    return ExpectQuotientOfAll(gradient, values, objective, tolerance);
  }
  ExpectNumbers(gradient, QuotientsOfEach(values, objective), tolerance);
}

void ExpectLikeFloat64(const LayerCase& c, Steps steps, const Tolerance& tolerance) {
  SCOPED_TRACE(absl::StrCat("in float64: ", c.plan.spec.ShortDebugString()));
  Float64Values values(c);
  const LayerResult result = RunOnGpu(c);
  ExpectNumbers(result.y, Float64Forward(c, values), tolerance.y);
  if (!c.training) return;
  const auto objective = [&] {
    const Doubles y = Float64Forward(c, values);
    return std::inner_product(y.begin(), y.end(), c.dy.begin(), 0.0);
  };
  const auto expect = [&](const std::vector<float>& gradient, Doubles* by) {
    ExpectDifferenceQuotients(gradient, by, objective, steps, tolerance.gradients);
  };
  for (size_t k = 0; k < values.x.size(); ++k) {
    SCOPED_TRACE(absl::StrCat("dx ", k));
    if (c.asked[k]) expect(result.dx[k], &values.x[k]);
  }
  for (size_t role = 0; role < values.parameters.size(); ++role) {
    SCOPED_TRACE(absl::StrCat("gradient ", role));
    const std::vector<float>& gradient = result.gradients[role];
    if (!c.plan.trainable) {
      EXPECT_TRUE(gradient.empty());
    } else if (c.plan.spec.has_batch_normalization() && role >= kMovingMean) {
      ExpectNumbers(gradient, Float64Statistics(c, values, role), tolerance.y);
    } else {
      expect(gradient, &values.parameters[role]);
    }
  }
}

namespace {

// Shuffles numbers of which neighbours are at least 1e-3 apart, from about -8 to 8 if there are
// few; none is close to 0 or 6.
void SpreadOut(LayerCase* c) {
  size_t count = 0;
  for (const auto& x : c->x) count += x.size();
  const double apart = std::max(16.0 / static_cast<double>(count), 1e-3);
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) {
    const double place = static_cast<double>(i) + 0.3 - static_cast<double>(count) / 2;
    numbers.push_back(static_cast<float>(place * apart));
  }
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(31));
  for (auto& x : c->x) {
    std::copy_n(numbers.end() - static_cast<ptrdiff_t>(x.size()), x.size(), x.begin());
    numbers.resize(numbers.size() - x.size());
  }
}

// So that all sums are halves.
void UseWholeNumbersAndHalves(LayerCase* c, std::vector<float>* halves) {
  UseWholeNumbers(c);
  for (float& value : *halves) value += 0.5f;
}

bool HasKinks(Activation function) {
  return function == RELU || function == RELU6 || function == LEAKY_RELU;
}

bool ChoosesTheLargest(const LayerSpec& spec) {
  return spec.has_max_pool2d() || spec.has_max_pool1d() || spec.has_global_max_pooling2d() ||
         spec.has_global_max_pooling1d() || spec.has_maximum();
}

}  // namespace

void KeepFromKinks(LayerCase* c) {
  const bool kinked = HasKinks(LastActivation(c->plan.spec));
  if (ChoosesTheLargest(c->plan.spec) || (kinked && c->plan.spec.has_activation())) {
    SpreadOut(c);
  } else if (kinked) {
    UseWholeNumbersAndHalves(c, &c->parameters[kBias]);
  } else if (c->then == RELU && c->plan.spec.has_add()) {
    UseWholeNumbersAndHalves(c, &c->x[0]);
  }
}

}  // namespace millrace::worker
