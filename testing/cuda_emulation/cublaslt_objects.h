// What cuBLASLt's handles stand for.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_CUBLASLT_OBJECTS_H_
#define MILLRACE_TESTING_CUDA_EMULATION_CUBLASLT_OBJECTS_H_

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>

struct cublasLtContext {
  int device = 0;
};

struct cublasLtMatmulDescOpaque_t {
  int32_t compute = CUBLAS_COMPUTE_32F;
  int32_t scale = CUDA_R_32F;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct cublasLtMatrixLayoutOpaque_t {
  uint32_t type = CUDA_R_32F;
  int32_t order = CUBLASLT_ORDER_COL;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t leading = 0;  // Elements from a column to the next, or from a row to the next.
  int32_t batch = 1;
  int64_t batch_stride = 0;  // Elements.
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint32_t search_mode = 0;
  uint64_t workspace = 0;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignment = {256, 256, 256, 256};  // Of A, B, C and D.
  uint64_t implementation_mask = ~uint64_t{0};
};

#endif  // MILLRACE_TESTING_CUDA_EMULATION_CUBLASLT_OBJECTS_H_
