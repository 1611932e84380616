// Losses of floats, each a function of the error x - y of a number x of the output whose label is
// y; an example's loss is the mean over its numbers.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSSES_REGRESSION_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSSES_REGRESSION_H_

#include "worker/device/cpu/loss.h"

namespace millrace::worker {

// error^2
class MeanSquaredErrorLoss final : public CpuLoss {
 public:
  double Compute(const LossBatch& batch, float* gradient) const override;
};

// |error|; its derivative at 0 is 0.
class MeanAbsoluteErrorLoss final : public CpuLoss {
 public:
  double Compute(const LossBatch& batch, float* gradient) const override;
};

// error^2 / 2 up to delta, delta |error| - delta^2 / 2 from there on.
class HuberLoss final : public CpuLoss {
 public:
  explicit HuberLoss(double delta) : delta_(delta) {}

  double Compute(const LossBatch& batch, float* gradient) const override;

 private:
  const double delta_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSSES_REGRESSION_H_
