#include "worker/model/penalty.h"

#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace millrace::worker {
namespace {

// In lanes, so that no addition waits for the one before.
template <typename Function>
double SumOf(absl::Span<const float> values, const Function& function) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += function(double{values[i + lane]});
  }
  for (size_t lane = 0; i < values.size(); ++i, ++lane) sums[lane] += function(double{values[i]});
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

}  // namespace

double Penalty(const Regularizer& regularizer, absl::Span<const float> values) {
  double penalty = 0;
  if (regularizer.l1() != 0) {
    penalty += regularizer.l1() * SumOf(values, [](double w) { return std::abs(w); });
  }
  if (regularizer.l2() != 0) {
    penalty += regularizer.l2() * SumOf(values, [](double w) { return w * w; });
  }
  return penalty;
}

}  // namespace millrace::worker
