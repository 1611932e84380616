#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/test_kernels.h"

namespace cuda_emulation {
namespace {

using ::testing::Each;

class DeviceTest : public ::testing::Test {
 protected:
  DeviceTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Reset();
  }
  ~DeviceTest() override { Reset(); }
};

TEST_F(DeviceTest, AllocationsBeyondTheLimitFail) {
  SetMemory(1000);
  size_t free = 0, total = 0;
  char *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 600), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 400);
  EXPECT_EQ(total, 1000);
  EXPECT_EQ(cudaMalloc(&second, 401), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 1000), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaErrorInvalidValue);
}

TEST_F(DeviceTest, NewMemoryIsNoNumber) {
  for (float value : DeviceVector<float>(10).Values()) EXPECT_NE(value, value);
  for (double value : DeviceVector<double>(10).Values()) EXPECT_NE(value, value);
}

TEST_F(DeviceTest, HostCannotReadDeviceMemory) {
  const DeviceVector<float> memory(10);
  EXPECT_DEATH({ *const_cast<volatile float*>(memory.data()) = 1; }, "");
}

TEST_F(DeviceTest, FreedMemoryIsRefused) {
  float* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 40), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 40), cudaErrorInvalidValue);
  EXPECT_DEATH(LaunchNumber(nullptr, 10, 0, memory), "Number.*freed memory");
}

TEST_F(DeviceTest, KernelsAreNotLaunchedWithHostMemory) {
  float number = 0;
  EXPECT_DEATH(LaunchNumber(nullptr, 1, 0, &number), "Number.*memory of the host");
}

TEST_F(DeviceTest, CopiesAreChecked) {
  const DeviceVector<char> device(100);
  std::vector<char> host(200);
  EXPECT_EQ(cudaMemcpy(device.data(), host.data(), 101, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data() + 50, host.data(), 51, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), device.data(), 100, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data(), host.data(), 1, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemset(device.data(), 1, 101), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device.data(), 1, 100), cudaSuccess);
  EXPECT_THAT(device.Values(), Each(1));
  EXPECT_DEATH(cudaMemcpyAsync(device.data(), host.data(), 1, cudaMemcpyHostToDevice),
               "not pinned");
}

TEST_F(DeviceTest, GridsThatNoGpuTakesAreRefused) {
  const DeviceVector<int> counter(1), out(1);
  const auto launch = [&](dim3 grid, dim3 block) {
    return LaunchOrder(nullptr, grid, block, counter.data(), out.data());
  };
  EXPECT_EQ(launch(0, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(64, 32)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(DeviceTest, ThereMayBeNoGpu) {
  int count = -1;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  SetDeviceCount(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  Reset();
  SetDriverMissing();
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  int version = -1;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
}

TEST_F(DeviceTest, PropertiesAreOfAGpu) {
  SetMemory(12345678);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "Emulated GPU");
  EXPECT_EQ(properties.totalGlobalMem, 12345678);
  EXPECT_EQ(properties.major, 9);
  int value = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0), cudaSuccess);
  EXPECT_EQ(value, 1024);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0),
            cudaErrorInvalidValue);
}

TEST_F(DeviceTest, NthLaunchFails) {
  const DeviceVector<float> out(10);
  FailLaunch(2);
  EXPECT_EQ(LaunchNumber(nullptr, 10, 0, out.data()), cudaSuccess);
  EXPECT_EQ(LaunchNumber(nullptr, 10, 0, out.data()), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(LaunchNumber(nullptr, 10, 0, out.data()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(DeviceTest, NthAllocationFails) {
  float* memory = nullptr;
  FailAllocation(1);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorMemoryAllocation);
  FailPinnedAllocation(1);
  EXPECT_EQ(cudaHostAlloc(&memory, 4, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(DeviceTest, AfterAKernelHasFailedAllCallsFail) {
  const DeviceVector<float> out(10);
  FailKernel(1);
  EXPECT_EQ(LaunchNumber(nullptr, 10, 0, out.data()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(LaunchNumber(nullptr, 10, 0, out.data()), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  Reset();
  EXPECT_EQ(LaunchNumber(nullptr, 10, 0, out.data()), cudaSuccess);
  EXPECT_EQ(out.Values()[9], 9);
}

TEST_F(DeviceTest, LostDeviceStaysLost) {
  LoseDevice();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
}

TEST_F(DeviceTest, KernelThatNeverEndsKeepsItsStreamBusy) {
  const DeviceVector<float> out(10);
  HangKernel(1);
  cudaStream_t stream, other;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(LaunchNumber(stream, 10, 0, out.data()), cudaSuccess);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  ASSERT_EQ(LaunchNumber(other, 10, 0, out.data()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_DEATH(cudaStreamSynchronize(stream), "cudaStreamSynchronize would wait for ever");
  Reset();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(DeviceTest, ErrorsHaveCudasNamesAndWords) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

}  // namespace
}  // namespace cuda_emulation
