// How long work takes on a GPU.
#ifndef MILLRACE_TESTING_BENCHMARKS_GPU_TIMING_H_
#define MILLRACE_TESTING_BENCHMARKS_GPU_TIMING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "worker/device/cuda/library.h"

namespace millrace::testing {

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// REQUIRES: at least one number.
Spread SpreadOf(std::vector<double> numbers);

// Waits for all that is enqueued on the compute stream, and looks again at once. Throws
// cuda::Error.
void AwaitCompute(cuda::Gpu* gpu);

// Seconds of `enqueue` on the compute stream: it is captured `times` times into one graph, which is
// launched once to warm up, then `rounds` times. By the host's clock: the launch of the graph, some
// microseconds, is part of it, so `times` is large where one takes little. Throws cuda::Error.
Spread SecondsOf(cuda::Gpu* gpu, const std::function<void()>& enqueue, int times, int rounds);

// Device memory, of floats uniform in [-1, 1).
class RandomFloats {
 public:
  RandomFloats(cuda::Gpu* gpu, size_t count, uint64_t seed);
  RandomFloats(const RandomFloats&) = delete;
  RandomFloats& operator=(const RandomFloats&) = delete;
  ~RandomFloats() { gpu_->Free(memory_); }

  float* get() const { return static_cast<float*>(memory_); }

 private:
  cuda::Gpu* const gpu_;
  void* const memory_;
};

// Operations a second of the product of two matrices of size x size numbers, as a dense layer has
// it. Throws cuda::Error.
double ProductRate(cuda::Gpu* gpu, cuda::Precision precision, int64_t size, int rounds);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_GPU_TIMING_H_
