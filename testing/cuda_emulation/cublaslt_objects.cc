#include "testing/cuda_emulation/cublaslt_objects.h"

#include <cstring>

#include "testing/cuda_emulation/device.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

template <typename T>
cublasStatus_t SetValue(const void* value, size_t bytes, T* field) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(field, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t Destroy(T* object) {
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cuda_emulation

using cuda_emulation::SetValue;

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define CUDA_EMULATION_NAME(name, value) \
  case name:                             \
    return #name;
    CUDA_EMULATION_STATUSES(CUDA_EMULATION_NAME)
#undef CUDA_EMULATION_NAME
  }
  return "unknown cuBLAS status";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const cudaError_t error = cuda_emulation::Call([](cuda_emulation::Device* device) {
    ++device->counts.blas_handles;
    return cudaSuccess;
  });
  if (error != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{cuda_emulation::CurrentDevice()};
  return CUBLAS_STATUS_SUCCESS;
}

// Waits for the device, as cuBLASLt's own does.
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  cuda_emulation::Call([](cuda_emulation::Device* device) {
    cuda_emulation::InvalidateCapturesOfCurrentDevice(device);
    return cudaSuccess;
  });
  return cuda_emulation::Destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *description = new cublasLtMatmulDescOpaque_t;
  (*description)->compute = compute;
  (*description)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return cuda_emulation::Destroy(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return SetValue(value, bytes, &description->compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return SetValue(value, bytes, &description->scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return SetValue(value, bytes, &description->pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return SetValue(value, bytes, &description->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return SetValue(value, bytes, &description->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return SetValue(value, bytes, &description->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return SetValue(value, bytes, &description->bias);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = new cublasLtMatrixLayoutOpaque_t;
  (*layout)->type = type;
  (*layout)->rows = rows;
  (*layout)->columns = columns;
  (*layout)->leading = leading;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return cuda_emulation::Destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return SetValue(value, bytes, &layout->type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return SetValue(value, bytes, &layout->order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return SetValue(value, bytes, &layout->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return SetValue(value, bytes, &layout->columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return SetValue(value, bytes, &layout->leading);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return SetValue(value, bytes, &layout->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return SetValue(value, bytes, &layout->batch_stride);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return cuda_emulation::Destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return SetValue(value, bytes, &preference->search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return SetValue(value, bytes, &preference->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return SetValue(value, bytes, &preference->reduction_mask);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return SetValue(
          value, bytes,
          &preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return SetValue(value, bytes, &preference->implementation_mask);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
