#include <cuda_runtime.h>

#include <string>

#include "worker/device/cuda/kernels/gpu.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/nccl_lock.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/library_version.h"

namespace millrace::cuda {
namespace {

// CUDA says of both that the driver is insufficient.
[[noreturn]] void ThrowNoDriver() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw Error(Error::kOther, "there is no NVIDIA driver: libcuda.so.1 could not be loaded");
  }
  throw Error(Error::kOther, "the NVIDIA driver knows CUDA " + CudaVersion(driver) +
                                 "; must be at least " + CudaVersion(CUDART_VERSION));
}

class CudaLibrary final : public Library {
 public:
  int GpuCount() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver) ThrowNoDriver();
    if (error == cudaErrorNoDevice) return 0;
    Check(error, "cudaGetDeviceCount");
    return count;
  }

  std::unique_ptr<Gpu> Open(int index, const GpuOptions& options) override {
    const int count = GpuCount();
    if (index < 0 || index >= count) {
      throw Error(Error::kOther, "no such GPU: this process may use " + std::to_string(count) +
                                     " (nvidia-smi lists a machine's GPUs, CUDA_VISIBLE_DEVICES "
                                     "may hide some)");
    }
    return std::make_unique<CudaGpu>(index, options);
  }

  void* AllocatePinned(int index, size_t bytes) override {
    const auto lock = ShareNcclLock();
    Check(cudaSetDevice(index), "cudaSetDevice");
    void* memory = nullptr;
    Check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
          ("cudaHostAlloc of " + std::to_string(bytes) + " bytes").c_str());
    return memory;
  }

  void FreePinned(int index, void* memory) noexcept override {
    const auto lock = ShareNcclLock();
    cudaSetDevice(index);
    cudaFreeHost(memory);
    cudaGetLastError();  // Of an error of the device who waited for it was told.
  }
};

}  // namespace
}  // namespace millrace::cuda

extern "C" [[gnu::visibility("default")]] millrace::cuda::Library* MillraceCudaLibrary(
    int version) {
  static millrace::cuda::CudaLibrary library;
  return version == millrace::cuda::kLibraryVersion ? &library : nullptr;
}
