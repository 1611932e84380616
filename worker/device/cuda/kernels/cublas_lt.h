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

using LtOwner = BlasOwner<cublasLtHandle_t, cublasLtDestroy>;
using LayoutOwner = BlasOwner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using ProductOwner = BlasOwner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using PreferenceOwner = BlasOwner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CUBLAS_LT_H_
