// Gradients that leave for the ps servers while the backward pass goes on.
#ifndef MILLRACE_WORKER_TRAINING_PUSHING_SINK_H_
#define MILLRACE_WORKER_TRAINING_PUSHING_SINK_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "protos/job.pb.h"
#include "worker/model/model.h"
#include "worker/parameters/parameter_client.h"
#include "worker/training/gradient_pool.h"

namespace millrace::worker {

// Adds each variable's gradient, or statistic, to a push as soon as the model has finished it,
// unless it has values that are no numbers. Used by one thread.
class PushingSink final : public GradientSink {
 public:
  // `push` and `variables` must outlive this object; the push holds `gradients` for as long as it
  // needs them.
  PushingSink(ParameterClient::Push* push, std::shared_ptr<GradientSet> gradients,
              const std::vector<VariableSpec>& variables, Clock* clock);

  absl::Span<float> Buffer(size_t variable) override;
  void Finished(size_t variable) override;

  // Once the model is done: OK, the push may be committed. OUT_OF_RANGE: a gradient is not finite.
  // INTERNAL: the model has not finished the gradient of each variable that is not frozen exactly
  // once, or that of a frozen one.
  absl::Status Check() const;

  // When the first gradient was asked for a place; where none was, when this object was made.
  absl::Time begun_at() const { return begun_at_; }

 private:
  bool IsFrozen(size_t variable) const { return variables_[variable].update().has_frozen(); }

  ParameterClient::Push* const push_;
  const std::vector<VariableSpec>& variables_;
  const std::shared_ptr<GradientSet> gradients_;
  Clock* const clock_;
  absl::Time begun_at_;
  bool has_begun_ = false;
  std::vector<int> finished_;  // How often, by variable.
  absl::Status not_finite_;    // Of the first variable that is not.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PUSHING_SINK_H_
