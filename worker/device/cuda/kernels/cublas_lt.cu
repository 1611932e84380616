#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "worker/device/cuda/kernels/cublas_lt.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

// What a call that did not work gives, and a lost device too.
bool MayBeLoss(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_EXECUTION_FAILED:
    case CUBLAS_STATUS_INTERNAL_ERROR:
    case CUBLAS_STATUS_MAPPING_ERROR:
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return true;
    default:
      return false;
  }
}

// If the device is lost, every call of CUDA says so.
void CheckDevice(const char* call) {
  size_t free = 0;
  size_t total = 0;
  Check(cudaMemGetInfo(&free, &total), call);
}

// That nobody has, by device.
struct SpareLt {
  std::mutex mutex;
  std::map<int, std::vector<cublasLtHandle_t>> handles;
};

// Some thread may use it when the process ends.
SpareLt& Spare() {
  static auto* const spare = new SpareLt;
  return *spare;
}

cublasLtHandle_t SpareOf(int device) {
  SpareLt& spare = Spare();
  const std::lock_guard<std::mutex> lock(spare.mutex);
  std::vector<cublasLtHandle_t>& handles = spare.handles[device];
  if (handles.empty()) return nullptr;
  const cublasLtHandle_t handle = handles.back();
  handles.pop_back();
  return handle;
}

}  // namespace

void GiveLtBack::operator()(std::remove_pointer_t<cublasLtHandle_t>* handle) const {
  SpareLt& spare = Spare();
  const std::lock_guard<std::mutex> lock(spare.mutex);
  try {
    spare.handles[device].push_back(handle);
  } catch (const std::bad_alloc&) {  // Nobody has it any more.
  }
}

LtOwner TakeLt() {
  int device = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  cublasLtHandle_t handle = SpareOf(device);
  if (handle == nullptr) CheckBlas(cublasLtCreate(&handle), "cublasLtCreate");
  return LtOwner(handle, {device});
}

void CheckBlas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (MayBeLoss(status)) CheckDevice(call);
  const Error::Kind kind = status == CUBLAS_STATUS_ALLOC_FAILED ? Error::kMemory : Error::kOther;
  throw Error(kind, std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
                        cublasLtGetStatusString(status));
}

}  // namespace millrace::cuda
