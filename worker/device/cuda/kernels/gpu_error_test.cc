#include <cuda_runtime.h>

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using worker::OnDevice;

TEST_F(GpuTest, TooLittleMemoryIsAnErrorThatSaysHowMuchWasAskedFor) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory(1 << 20);
  const Error device = ErrorOf([&] { gpu_->Allocate(4 << 20); });
  EXPECT_EQ(device.kind(), Error::kMemory);
  EXPECT_THAT(device.what(), HasSubstr("cudaMalloc of 4194304 bytes: cudaErrorMemoryAllocation: "));
  cuda_emulation::FailPinnedAllocation(1);
  const Error pinned = ErrorOf([&] { gpu_->AllocatePinned(100); });
  EXPECT_EQ(pinned.kind(), Error::kMemory);
  EXPECT_THAT(pinned.what(), HasSubstr("cudaHostAlloc of 100 bytes: cudaErrorMemoryAllocation: "));
  gpu_->Free(gpu_->Allocate(1000));  // It goes on.
}

TEST_F(GpuTest, KernelThatFailsLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION();
  const auto event = gpu_->MakeEvent();
  {
    const auto sum = OnDevice<float>(gpu_.get(), {1});
    cuda_emulation::FailKernel(1);
    gpu_->Add(sum->As(), 1, sum->As());
    gpu_->Record(Stream::kCompute, event.get());
    const Error waited = ErrorOf([&] { gpu_->HostWaitFor(*event, kPatience); });
    EXPECT_EQ(waited.kind(), Error::kLost);
    EXPECT_THAT(waited.what(), HasSubstr("cudaErrorIllegalAddress: an illegal memory access"));
    EXPECT_EQ(ErrorOf([&] { gpu_->Allocate(1); }).kind(), Error::kLost);
    EXPECT_EQ(ErrorOf([&] { gpu_->BeginCapture(); }).kind(), Error::kLost);
    EXPECT_EQ(ErrorOf([&] { worker::OpenTestGpu(); }).kind(), Error::kLost);
    cuda_emulation::Reset();
  }
}

TEST_F(GpuTest, EveryErrorThatLastsLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION();
  for (const cudaError_t error :
       {cudaErrorAssert, cudaErrorContained, cudaErrorDeviceUninitialized,
        cudaErrorDevicesUnavailable, cudaErrorECCUncorrectable, cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction, cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,
        cudaErrorLaunchFailure, cudaErrorLaunchTimeout, cudaErrorMisalignedAddress,
        cudaErrorMpsConnectionFailed, cudaErrorMpsRpcFailure, cudaErrorNoDevice,
        cudaErrorNvlinkUncorrectable, cudaErrorOperatingSystem, cudaErrorSystemNotReady,
        cudaErrorUnknown}) {
    cuda_emulation::LoseDevice(error);
    const Error lost = ErrorOf([&] { gpu_->Properties(); });
    EXPECT_EQ(lost.kind(), Error::kLost);
    EXPECT_THAT(lost.what(), HasSubstr(cudaGetErrorName(error)));
    cuda_emulation::Reset();
  }
}

TEST_F(GpuTest, GpuThatIsLostEndsWithoutAnError) {
  MILLRACE_NEEDS_EMULATION();
  auto other = worker::OpenTestGpu();
  auto event = other->MakeEvent();
  cuda_emulation::LoseDevice();
  event.reset();
  other.reset();
}

TEST_F(GpuTest, LaunchThatFailsIsAnErrorAndTheGpuGoesOn) {
  MILLRACE_NEEDS_EMULATION();
  const auto sum = OnDevice<float>(gpu_.get(), {1});
  cuda_emulation::FailLaunch(1);
  const Error error = ErrorOf([&] { gpu_->Add(sum->As(), 1, sum->As()); });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_THAT(error.what(), HasSubstr("cudaLaunchKernelEx: cudaErrorLaunchOutOfResources: "));
  gpu_->Add(sum->As(), 1, sum->As());
  EXPECT_THAT(sum->Values(), ElementsAre(2));
}

}  // namespace
}  // namespace millrace::cuda
