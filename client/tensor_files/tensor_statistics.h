// What the values of a tensor are like.
#ifndef MILLRACE_CLIENT_TENSOR_FILES_TENSOR_STATISTICS_H_
#define MILLRACE_CLIENT_TENSOR_FILES_TENSOR_STATISTICS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::client {

// Of all values that were added; a value type. min, max, mean and norm are of the finite ones, and
// mean nothing where there are none.
class TensorStatistics {
 public:
  void Add(absl::Span<const float> values);

  uint64_t count() const { return finite_ + nan_ + infinite_; }
  uint64_t finite() const { return finite_; }
  uint64_t nan() const { return nan_; }
  uint64_t infinite() const { return infinite_; }
  double min() const { return min_; }
  double max() const { return max_; }
  double mean() const { return finite_ == 0 ? 0 : sum_ / static_cast<double>(finite_); }
  // The square root of the sum of the squares.
  double norm() const;

 private:
  uint64_t finite_ = 0;
  uint64_t nan_ = 0;
  uint64_t infinite_ = 0;
  double min_ = 0;
  double max_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TENSOR_FILES_TENSOR_STATISTICS_H_
