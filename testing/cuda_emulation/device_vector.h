// Numbers in the emulated device's memory, for tests.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_DEVICE_VECTOR_H_
#define MILLRACE_TESTING_CUDA_EMULATION_DEVICE_VECTOR_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

namespace cuda_emulation {

template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&data_, size * sizeof(T)), cudaSuccess);
  }
  explicit DeviceVector(const std::vector<T>& values) : DeviceVector(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  DeviceVector(const DeviceVector&) = delete;
  ~DeviceVector() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  // Waits for all work.
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_DEVICE_VECTOR_H_
