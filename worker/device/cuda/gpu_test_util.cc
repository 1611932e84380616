#include "worker/device/cuda/gpu_test_util.h"

#include <bit>
#include <cstring>

#include "glog/logging.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {

std::unique_ptr<cuda::Gpu> OpenTestGpu(const cuda::GpuOptions& options) {
  return TestLibrary()->Open(0, options);
}

namespace {

constexpr double kPatience = 60;  // Seconds for what never waits.

void Wait(cuda::Gpu* gpu) {
  const std::unique_ptr<cuda::Event> event = gpu->MakeEvent();
  gpu->Record(cuda::Stream::kCompute, event.get());
  CHECK(gpu->HostWaitFor(*event, kPatience));
}

}  // namespace

DeviceMemory::DeviceMemory(cuda::Gpu* gpu, size_t bytes)
    : gpu_(gpu), bytes_(bytes), memory_(gpu->Allocate(bytes)) {
  if (OnRealGpu()) Spoil();  // The emulation does so by itself.
}

void DeviceMemory::Set(const void* values) {
  if (bytes_ == 0) return;
  void* const pinned = gpu_->AllocatePinned(bytes_);
  std::memcpy(pinned, values, bytes_);
  gpu_->CopyIn(cuda::Stream::kCompute, memory_, pinned, bytes_);
  Wait(gpu_);
  gpu_->FreePinned(pinned);
}

void DeviceMemory::Spoil() {
  Set(std::vector<uint8_t>(bytes_, 0xff).data());  // Of floats and doubles NaN.
}

void DeviceMemory::Get(void* values) {
  if (bytes_ == 0) return;
  void* const pinned = gpu_->AllocatePinned(bytes_);
  gpu_->CopyOut(cuda::Stream::kCompute, pinned, memory_, bytes_);
  Wait(gpu_);
  std::memcpy(values, pinned, bytes_);
  gpu_->FreePinned(pinned);
}

std::vector<uint16_t> ToNarrow(const std::vector<float>& values) {
  std::vector<uint16_t> narrow;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    narrow.push_back(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
  return narrow;
}

std::vector<float> FromNarrow(const std::vector<uint16_t>& values) {
  std::vector<float> floats;
  for (const uint16_t value : values) floats.push_back(std::bit_cast<float>(uint32_t{value} << 16));
  return floats;
}

}  // namespace millrace::worker
