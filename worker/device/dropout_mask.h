// What a dropout layer drops, on every device: the same for the same seed.
#ifndef MILLRACE_WORKER_DEVICE_DROPOUT_MASK_H_
#define MILLRACE_WORKER_DEVICE_DROPOUT_MASK_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace millrace::worker {

// An element is dropped where its hash is below this.
inline uint32_t DropoutThreshold(double rate) {
  return static_cast<uint32_t>(std::min(std::round(std::ldexp(rate, 32)), 4294967295.0));
}

// What the others are multiplied by.
inline float DropoutScale(double rate) { return static_cast<float>(1 / (1 - rate)); }

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_DROPOUT_MASK_H_
