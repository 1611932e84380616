// A GPU and its memory, for tests.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_GPU_TEST_UTIL_H_
#define MILLRACE_WORKER_DEVICE_CUDA_GPU_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "worker/device/cuda/library.h"

namespace millrace::worker {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The first one of TestLibrary (test_library.h).
std::unique_ptr<cuda::Gpu> OpenTestGpu(const cuda::GpuOptions& options = {});

// Device memory. It starts as garbage, of floats NaN. On the emulated GPU what is written outside
// of it stops the process (testing/cuda_emulation/memory.h).
class DeviceMemory {
 public:
  DeviceMemory(cuda::Gpu* gpu, size_t bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { gpu_->Free(memory_); }

  template <typename T = float>
  T* As() const {
    return static_cast<T*>(memory_);
  }
  size_t bytes() const { return bytes_; }

  void Set(const void* values);
  void Spoil();            // As at first.
  void Get(void* values);  // Waits for all that is enqueued.

  template <typename T = float>
  std::vector<T> Values() {
    std::vector<T> values(bytes_ / sizeof(T));
    Get(values.data());
    return values;
  }

 private:
  cuda::Gpu* const gpu_;
  const size_t bytes_;
  void* const memory_;
};

// To bfloat16, of two equally near ones to the even one; and back. REQUIRES: no NaN.
std::vector<uint16_t> ToNarrow(const std::vector<float>& values);
std::vector<float> FromNarrow(const std::vector<uint16_t>& values);

template <typename T>
std::unique_ptr<DeviceMemory> OnDevice(cuda::Gpu* gpu, const std::vector<T>& values) {
  auto memory = std::make_unique<DeviceMemory>(gpu, values.size() * sizeof(T));
  memory->Set(values.data());
  return memory;
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_GPU_TEST_UTIL_H_
