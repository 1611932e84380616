#include "worker/device/cuda/gpu_test_util.h"

#include <cstring>

#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::worker {

std::unique_ptr<cuda::Gpu> OpenEmulatedGpu() {
  cuda::Library* const library = MillraceCudaLibrary(cuda::kLibraryVersion);
  CHECK(library != nullptr);
  return library->Open(0);
}

namespace {

constexpr uint8_t kNoValue = 0xff;  // Floats and doubles of such bytes are NaN.
constexpr double kPatience = 60;    // Seconds for what never waits.

void Wait(cuda::Gpu* gpu) {
  const std::unique_ptr<cuda::Event> event = gpu->MakeEvent();
  gpu->Record(cuda::Stream::kCompute, event.get());
  CHECK(gpu->HostWaitFor(*event, kPatience));
}

}  // namespace

DeviceMemory::DeviceMemory(cuda::Gpu* gpu, size_t bytes)
    : gpu_(gpu), bytes_(bytes), memory_(static_cast<uint8_t*>(gpu->Allocate(bytes + 2 * kFence))) {
  const std::vector<uint8_t> all(bytes + 2 * kFence, kNoValue);
  CopyIn(0, all.data(), all.size());
}

DeviceMemory::~DeviceMemory() {
  const std::vector<uint8_t> fence(kFence, kNoValue);
  for (const size_t offset : {size_t{0}, kFence + bytes_}) {
    std::vector<uint8_t> there(kFence);
    CopyOut(offset, there.data(), kFence);
    EXPECT_EQ(there, fence) << "written " << (offset == 0 ? "before" : "behind") << " the memory";
  }
  gpu_->Free(memory_);
}

void DeviceMemory::Set(const void* values) { CopyIn(kFence, values, bytes_); }

void DeviceMemory::Spoil() { Set(std::vector<uint8_t>(bytes_, kNoValue).data()); }

void DeviceMemory::Get(void* values) { CopyOut(kFence, values, bytes_); }

void DeviceMemory::CopyIn(size_t offset, const void* values, size_t bytes) {
  if (bytes == 0) return;
  void* const pinned = gpu_->AllocatePinned(bytes);
  std::memcpy(pinned, values, bytes);
  gpu_->CopyIn(cuda::Stream::kCompute, memory_ + offset, pinned, bytes);
  Wait(gpu_);
  gpu_->FreePinned(pinned);
}

void DeviceMemory::CopyOut(size_t offset, void* values, size_t bytes) {
  if (bytes == 0) return;
  void* const pinned = gpu_->AllocatePinned(bytes);
  gpu_->CopyOut(cuda::Stream::kCompute, pinned, memory_ + offset, bytes);
  Wait(gpu_);
  std::memcpy(values, pinned, bytes);
  gpu_->FreePinned(pinned);
}

}  // namespace millrace::worker
