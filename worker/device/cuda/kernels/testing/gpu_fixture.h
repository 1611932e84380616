// What tests of the GPU itself share.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_GPU_FIXTURE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_GPU_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {

inline constexpr uint64_t kSeeds = 20;   // For cuda_emulation::SetOrder.
inline constexpr double kPatience = 60;  // Seconds, for what is not to wait.
inline constexpr size_t kCount = 1000;   // Of the elements of arrays.

// What `work` throws; the test fails if it throws nothing.
template <typename Work>
Error ErrorOf(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing is thrown";
  return Error(Error::kOther, "");
}

// Floats in pinned memory.
class PinnedFloats {
 public:
  PinnedFloats(Gpu* gpu, size_t count, float value)
      : gpu_(gpu), count_(count), data_(static_cast<float*>(gpu->AllocatePinned(bytes()))) {
    Fill(value);
  }
  ~PinnedFloats() { gpu_->FreePinned(data_); }

  void Fill(float value) {
    for (size_t i = 0; i < count_; ++i) data_[i] = value;
  }
  float* data() { return data_; }
  size_t bytes() const { return count_ * sizeof(float); }
  std::vector<float> Values() const { return {data_, data_ + count_}; }

 private:
  Gpu* const gpu_;
  const size_t count_;
  float* const data_;
};

class GpuTest : public ::testing::Test {
 protected:
  GpuTest() { cuda_emulation::Reset(); }
  ~GpuTest() override { cuda_emulation::Reset(); }

  void WaitFor(Stream stream) {
    const auto event = gpu_->MakeEvent();
    gpu_->Record(stream, event.get());
    EXPECT_TRUE(gpu_->HostWaitFor(*event, kPatience));
  }

  std::unique_ptr<Gpu> gpu_ = worker::OpenTestGpu();
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_GPU_FIXTURE_H_
