// Who owns what cuBLASLt makes, and how its errors are told.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CUBLAS_LT_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CUBLAS_LT_H_

#include <cublasLt.h>

#include <memory>
#include <type_traits>

namespace millrace::cuda {

// Throws Error, which names `call`.
void CheckBlas(cublasStatus_t status, const char* call);

template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
struct DestroyBlas {
  void operator()(std::remove_pointer_t<Handle>* handle) const { kDestroy(handle); }
};
template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
using BlasOwner = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyBlas<Handle, kDestroy>>;

using LayoutOwner = BlasOwner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using ProductOwner = BlasOwner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using PreferenceOwner = BlasOwner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// A handle is of the device that was the thread's own when it was made. To destroy one waits for
// the whole device, which breaks off what other threads capture on it meanwhile. So none is: who
// lets go of one leaves it to the next who asks. Thread-safe.
struct GiveLtBack {
  int device = 0;
  void operator()(std::remove_pointer_t<cublasLtHandle_t>* handle) const;
};
using LtOwner = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, GiveLtBack>;
LtOwner TakeLt();  // Throws Error.

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CUBLAS_LT_H_
