// What cuBLASLt says of an algorithm that it has chosen.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCT_ALGORITHM_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCT_ALGORITHM_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace::cuda {

// "?": cuBLASLt does not say.
template <typename Value>
std::string Attribute(const cublasLtMatmulAlgo_t& algorithm,
                      cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value = 0;
  size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written);
  return status == CUBLAS_STATUS_SUCCESS ? std::to_string(value) : "?";
}

// "algorithm 21, tile 18, ...": all that may change the order of a sum.
inline std::string AlgorithmText(const cublasLtMatmulAlgo_t& algorithm) {
  return "algorithm " + Attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID) + ", tile " +
         Attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID) + ", stages " +
         Attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID) + ", split-K " +
         Attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + ", reduction " +
         Attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) + ", swizzling " +
         Attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING) + ", option " +
         Attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION) + ", inner shape " +
         Attribute<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID) + ", cluster shape " +
         Attribute<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCT_ALGORITHM_H_
