#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_DIVISOR_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_DIVISOR_H_

#include <cstdint>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// Divides by a number that the host knows: by a multiplication, an addition and a shift. With
// 2^shift >= divisor > 2^(shift - 1), the quotient of n is n * (2^32 + multiplier) / 2^(32 +
// shift), where 2^32 + multiplier is 2^(32 + shift) / divisor, rounded up: too large by less than 1
// / n of itself while n < 2^31.
class Divisor {
 public:
  // REQUIRES: 1 <= divisor < 2^31
  explicit Divisor(uint32_t divisor = 1) : divisor_(divisor) {
    while ((uint64_t{1} << shift_) < divisor) ++shift_;
    multiplier_ = static_cast<uint32_t>((((uint64_t{1} << shift_) - divisor) << 32) / divisor + 1);
  }

  // REQUIRES: n < 2^31
  MILLRACE_DEVICE uint32_t Quotient(uint32_t n) const {
    return (static_cast<uint32_t>((uint64_t{n} * multiplier_) >> 32) + n) >> shift_;
  }
  MILLRACE_DEVICE uint32_t divisor() const { return divisor_; }

 private:
  uint32_t divisor_;
  uint32_t multiplier_ = 0;
  uint32_t shift_ = 0;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_DIVISOR_H_
