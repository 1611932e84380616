// A model whose every state is known in advance.
//
// Its gradients are small whole numbers that follow from the step alone. With SGD, a learning rate
// of 1 and variables that start at 0, a variable is minus the sum of the gradients applied to it,
// and as long as that stays below 2^24 the sum is exact, whatever its order. So a lost, repeated,
// torn or misplaced step shows in the final values, and most of them much earlier: each step and
// each evaluation looks at the values that it was given.
#ifndef MILLRACE_TESTING_CHAOS_SUM_MODEL_H_
#define MILLRACE_TESTING_CHAOS_SUM_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "protos/job.pb.h"
#include "worker/model/model.h"

namespace millrace::chaos {

// Elements of a variable get different gradients, of so many kinds.
inline constexpr size_t kKinds = 16;

// What frozen variables are.
inline constexpr float kFrozenValue = 7;

// The kind of an element.
constexpr size_t KindOf(size_t variable, uint64_t element) {
  return (element + 5 * variable) % kKinds;
}

// 1 to 8. Two steps differ in some kind, as good as surely.
int32_t GradientOf(uint64_t step, size_t kind);

// What the variables may be when a step is computed or an evaluation is made.
class SumChecker {
 public:
  // `replicas`, `staleness_bound`: of the job, as in common/job_spec.h.
  SumChecker(uint64_t total_steps, uint32_t replicas, uint32_t staleness_bound);

  // Synchronous: exactly the steps of earlier versions are in the values. Asynchronous: at least
  // those that the staleness bound asks for. INTERNAL: says which element differs, and how.
  absl::Status CheckTraining(uint64_t step, absl::Span<const std::vector<float>> values) const;

  // Exactly the first n steps are in the values, for some n, which is returned.
  absl::StatusOr<uint64_t> CheckEvaluation(absl::Span<const std::vector<float>> values) const;

 private:
  using Sums = std::array<int32_t, kKinds>;

  uint32_t contributions() const { return replicas_ == 0 ? 1 : replicas_; }

  const uint32_t replicas_;
  const uint32_t staleness_bound_;
  std::vector<Sums> before_;  // [n]: of steps 0 .. n - 1.
};

// Of jobs whose training examples have their own numbers as labels, taken in order and one at a
// time (no_shuffle, batch_size 1): step n has label n. Each layer of the ModelSpec, a `dense`,
// stands for a variable of `units` elements with the layer's name. The last ones may have
// `no_bias`: their variables are frozen, and must be kFrozenValue for ever. A step takes
// `step_time`. An evaluation's loss is the number of steps in the state. Returned errors end the
// job.
worker::ModelFactory SumModelFactory(absl::Duration step_time);

}  // namespace millrace::chaos

#endif  // MILLRACE_TESTING_CHAOS_SUM_MODEL_H_
