// The learning rate of each update: a constant, or as a schedule says.
#ifndef MILLRACE_PS_OPTIMIZER_LEARNING_RATE_H_
#define MILLRACE_PS_OPTIMIZER_LEARNING_RATE_H_

#include <cstdint>

#include "protos/optimizer.pb.h"

namespace millrace::ps {

// Immutable and thread-safe.
class LearningRate {
 public:
  // `initial` is the optimizer's own. REQUIRES: `schedule` has passed CheckOptimizerSpec.
  LearningRate(double initial, const LearningRateSchedule& schedule);

  // Of the update that makes `version`, which is at least 1: Keras's iterations + 1. The same bits
  // on every processor. Takes 100 ns where there is a schedule.
  double At(uint64_t version) const;

 private:
  const double initial_;
  const LearningRateSchedule schedule_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_LEARNING_RATE_H_
