// What regularizers add to a model's loss, whatever device it runs on.
#ifndef MILLRACE_WORKER_MODEL_PENALTY_H_
#define MILLRACE_WORKER_MODEL_PENALTY_H_

#include "absl/types/span.h"
#include "protos/model.pb.h"

namespace millrace::worker {

inline bool IsRegularized(const Regularizer& regularizer) {
  return regularizer.l1() != 0 || regularizer.l2() != 0;
}

// The sum over a variable's values w of l1 * |w| + l2 * w^2: a part of the mean loss.
double Penalty(const Regularizer& regularizer, absl::Span<const float> values);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_PENALTY_H_
