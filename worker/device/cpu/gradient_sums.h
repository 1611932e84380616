// Gradients of variables that several layers share, and what regularizers add.
#ifndef MILLRACE_WORKER_DEVICE_CPU_GRADIENT_SUMS_H_
#define MILLRACE_WORKER_DEVICE_CPU_GRADIENT_SUMS_H_

#include <cstddef>
#include <vector>

#include "worker/device/cpu/buffer.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Stands between the layers, each of which finishes its own gradient of a variable, and a sink, for
// which the last of them finishes the sum: added up in the order of the backward pass, with the
// regularizer's gradient at the end. Of statistics (moving averages) it is the mean: a value that
// several layers give stays one value. Used by one thread at a time.
class GradientSums final : public GradientSink {
 public:
  // The variables' values must outlive it. Throws std::bad_alloc.
  GradientSums(const ModelPlan& plan, const Walk& walk, const std::vector<CpuBuffer>& values);

  // A backward pass begins, whose gradients `sink` takes; it must outlive the pass.
  void Begin(GradientSink* sink);

  absl::Span<float> Buffer(size_t variable) override;
  void FinishedFirst(size_t variable, size_t count) override;
  void Finished(size_t variable) override;

  // What the regularizers add to the mean loss.
  double Penalty() const;

  // The memory for gradients that are to be added.
  size_t floats() const;

 private:
  void AddRegularizer(size_t variable);
  void Divide(size_t variable);

  const std::vector<Regularizer> regularizers_;  // Of each variable.
  const std::vector<CpuBuffer>& values_;
  const std::vector<size_t> uses_;  // Of each variable, in a pass.
  std::vector<bool> is_statistic_;  // And whether it is a moving average.
  std::vector<CpuBuffer> parts_;    // Of each that has several: the gradient of one of them.
  std::vector<size_t> finished_;    // Of each, in this pass.
  GradientSink* sink_ = nullptr;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_GRADIENT_SUMS_H_
