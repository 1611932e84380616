#include "worker/model/penalty.h"

#include <cmath>

namespace millrace::worker {

double Penalty(const Regularizer& regularizer, absl::Span<const float> values) {
  if (!IsRegularized(regularizer)) return 0;
  const double l1 = regularizer.l1();
  const double l2 = regularizer.l2();
  double sum = 0;
  for (const double w : values) sum += l1 * std::abs(w) + l2 * w * w;
  return sum;
}

}  // namespace millrace::worker
