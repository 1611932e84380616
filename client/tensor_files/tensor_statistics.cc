#include "client/tensor_files/tensor_statistics.h"

#include <algorithm>
#include <cmath>

namespace millrace::client {

void TensorStatistics::Add(absl::Span<const float> values) {
  for (const float value : values) {
    if (std::isnan(value)) {
      ++nan_;
      continue;
    }
    if (std::isinf(value)) {
      ++infinite_;
      continue;
    }
    const double wide = value;
    min_ = finite_ == 0 ? wide : std::min(min_, wide);
    max_ = finite_ == 0 ? wide : std::max(max_, wide);
    sum_ += wide;
    squares_ += wide * wide;
    ++finite_;
  }
}

double TensorStatistics::norm() const { return std::sqrt(squares_); }

}  // namespace millrace::client
