// What benchmarks multiply, for files that see CUDA's own names.
#ifndef MILLRACE_TESTING_BENCHMARKS_RANDOM_MATRIX_H_
#define MILLRACE_TESTING_BENCHMARKS_RANDOM_MATRIX_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace millrace::testing {

// Stops the process where a call has failed.
inline void CheckProductCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  std::exit(1);
}

// Device memory, of random numbers of either type from -1 to -0.5 and from 0.5 to 1.
class RandomMatrix {
 public:
  RandomMatrix(size_t count, bool is_narrow) {
    const size_t bytes = count * (is_narrow ? sizeof(uint16_t) : sizeof(uint32_t));
    std::vector<uint32_t> words(bytes / sizeof(uint32_t) + 1);
    std::mt19937 random(1);
    const uint32_t keep = is_narrow ? 0x807f807fu : 0x807fffffu;
    const uint32_t set = is_narrow ? 0x3f003f00u : 0x3f000000u;
    for (uint32_t& word : words) word = (static_cast<uint32_t>(random()) & keep) | set;
    CheckProductCuda(cudaMalloc(&memory_, bytes), "cudaMalloc");
    CheckProductCuda(cudaMemcpy(memory_, words.data(), bytes, cudaMemcpyHostToDevice),
                     "cudaMemcpy");
  }
  RandomMatrix(const RandomMatrix&) = delete;
  RandomMatrix& operator=(const RandomMatrix&) = delete;
  ~RandomMatrix() { cudaFree(memory_); }
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_RANDOM_MATRIX_H_
