// Several devices: what is one's is not another's.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/test_kernels.h"

namespace cuda_emulation {
namespace {

using ::testing::ElementsAre;

class SeveralDevicesTest : public ::testing::Test {
 protected:
  SeveralDevicesTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Reset();
    SetDeviceCount(2);
  }
  ~SeveralDevicesTest() override { Reset(); }

  // Another current device until the end of the block.
  class Use {
   public:
    explicit Use(int device) {
      cudaGetDevice(&before_);
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    }
    ~Use() { cudaSetDevice(before_); }

   private:
    int before_ = 0;
  };
};

TEST_F(SeveralDevicesTest, EachHasItsMemory) {
  SetMemoryOf(1, 1000);
  const DeviceVector<char> on_first(600);
  const Use second(1);
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 1000);
  EXPECT_EQ(total, 1000);
  char* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1001), cudaErrorMemoryAllocation);
}

TEST_F(SeveralDevicesTest, KernelsGoToStreamsOfTheCurrentDevice) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const Use second(1);
  const DeviceVector<float> memory(3);
  EXPECT_EQ(LaunchNumber(stream, 3, 0, memory.data()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(SeveralDevicesTest, EventsAreRecordedByTheirDeviceAndWaitedForByAll) {
  cudaEvent_t event = nullptr;
  cudaStream_t here = nullptr, there = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&here), cudaSuccess);
  {
    const Use second(1);
    ASSERT_EQ(cudaStreamCreate(&there), cudaSuccess);
  }
  EXPECT_EQ(cudaEventRecord(event, there), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, here), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(there, event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(here), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(there), cudaSuccess);
}

TEST_F(SeveralDevicesTest, KernelsReachTheirDevicesMemoryAlone) {
  const DeviceVector<float> on_first(3);
  const Use second(1);
  EXPECT_DEATH(LaunchNumber(nullptr, 3, 0, on_first.data()), "Number.*memory of another device");
}

TEST_F(SeveralDevicesTest, CopiesBetweenDevicesNameBoth) {
  const DeviceVector<float> from(std::vector<float>{1, 2});
  const Use second(1);
  const DeviceVector<float> to(2);
  EXPECT_EQ(cudaMemcpyPeerAsync(to.data(), 0, from.data(), 1, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyPeerAsync(to.data(), 1, from.data(), 2, 8), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemcpyPeerAsync(to.data(), 1, from.data(), 0, 12), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyPeerAsync(to.data(), 1, from.data(), 0, 8), cudaSuccess);
  EXPECT_THAT(to.Values(), ElementsAre(1, 2));
}

TEST_F(SeveralDevicesTest, PeerAccessIsEnabledOnce) {
  int can = 0;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  cudaDeviceEnablePeerAccess(1, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  SetPeerAccess(false);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
}

TEST_F(SeveralDevicesTest, ALostDeviceIsLostAlone) {
  const DeviceVector<float> on_first(std::vector<float>{1});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceVector<float> on_second(3);
  FailKernelOf(1, 1);
  ASSERT_EQ(LaunchNumber(nullptr, 3, 0, on_second.data()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorIllegalAddress);
  EXPECT_THAT(on_first.Values(), ElementsAre(1));
  Reset();  // Only now can memory be given back.
}

}  // namespace
}  // namespace cuda_emulation
