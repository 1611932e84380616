#include "worker/device/cuda/kernels/cublas_lt.h"

#include <cstddef>
#include <string>

#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

// A failed execution may be one launch that did not happen, or the loss of the device, which then
// every call of CUDA tells.
void CheckDevice(const char* call) {
  size_t free = 0;
  size_t total = 0;
  Check(cudaMemGetInfo(&free, &total), call);
}

}  // namespace

void CheckBlas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) CheckDevice(call);
  const Error::Kind kind = status == CUBLAS_STATUS_ALLOC_FAILED ? Error::kMemory : Error::kOther;
  throw Error(kind, std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
                        cublasLtGetStatusString(status));
}

}  // namespace millrace::cuda
