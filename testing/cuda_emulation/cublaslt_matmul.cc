#include <algorithm>
#include <cstring>

#include "testing/cuda_emulation/cublaslt_objects.h"
#include "testing/cuda_emulation/device.h"
#include "testing/cuda_emulation/product.h"
#include "testing/cuda_emulation/shared_memory.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

struct Layouts {
  const Layout* a;
  const Layout* b;
  const Layout* c;
  const Layout* d;
};

// What stands in cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t made_here;  // kMadeHere.
  uint64_t problem;    // That it was chosen for.
  uint64_t workspace;  // Bytes.
  int32_t id;
  int32_t splits;
  uint32_t reduction;
  uint32_t alignment[4];
  uint32_t unused[3];
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr uint64_t kMadeHere = 0x6d696c6c72616365;
constexpr uint32_t kMostAlignment = 16;  // That any algorithm needs.

bool IsType(uint32_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

bool IsLayout(const Layout* layout) {
  if (layout == nullptr || layout->rows == 0 || layout->columns == 0 || layout->batch < 1) {
    return false;
  }
  const uint64_t least = layout->order == CUBLASLT_ORDER_COL ? layout->rows : layout->columns;
  return layout->leading >= static_cast<int64_t>(least);
}

bool SameShape(const Layout& a, const Layout& b) {
  return a.rows == b.rows && a.columns == b.columns && a.batch == b.batch;
}

uint64_t RowsOf(const Layout& layout, int32_t operation) {
  return operation == CUBLAS_OP_N ? layout.rows : layout.columns;
}

uint64_t ColumnsOf(const Layout& layout, int32_t operation) {
  return operation == CUBLAS_OP_N ? layout.columns : layout.rows;
}

// Whether these can be multiplied at all, and whether here.
cublasStatus_t CheckProblem(const cublasLtMatmulDescOpaque_t* description, const Layouts& layouts) {
  if (description == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout* layout : {layouts.a, layouts.b, layouts.c, layouts.d}) {
    if (!IsLayout(layout)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Layout &a = *layouts.a, &b = *layouts.b, &c = *layouts.c, &d = *layouts.d;
  const int32_t ta = description->transpose_a, tb = description->transpose_b;
  if (ta < CUBLAS_OP_N || ta > CUBLAS_OP_C || tb < CUBLAS_OP_N || tb > CUBLAS_OP_C ||
      ColumnsOf(a, ta) != RowsOf(b, tb) || RowsOf(a, ta) != d.rows ||
      ColumnsOf(b, tb) != d.columns || !SameShape(c, d) || a.batch != d.batch ||
      b.batch != d.batch) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool computes = description->compute == CUBLAS_COMPUTE_32F ||
                        description->compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                        description->compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                        description->compute == CUBLAS_COMPUTE_32F_FAST_16BF;
  const uint32_t epilogue = description->epilogue;
  const bool finishes = epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                        epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_BIAS ||
                        epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool biased = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (!computes || !finishes || description->scale != CUDA_R_32F || !IsType(a.type) ||
      a.type != b.type || !IsType(d.type) || c.type != d.type || c.order != d.order ||
      (a.type == CUDA_R_32F && d.type != CUDA_R_32F) ||
      (biased && (d.order != CUBLASLT_ORDER_COL || d.batch > 1))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

uint64_t Mix(uint64_t sum, uint64_t value) {
  return (sum ^ value) * 0x9e3779b97f4a7c15 ^ (sum >> 29);
}

// A number that is another one for another problem.
uint64_t ProblemOf(const cublasLtMatmulDescOpaque_t& description, const Layouts& layouts) {
  uint64_t sum = Mix(description.compute, description.epilogue);
  sum = Mix(Mix(sum, description.transpose_a), description.transpose_b);
  for (const Layout* layout : {layouts.a, layouts.b, layouts.c, layouts.d}) {
    sum = Mix(Mix(Mix(sum, layout->type), layout->order), layout->rows);
    sum = Mix(Mix(Mix(sum, layout->columns), layout->leading), layout->batch);
  }
  return sum;
}

void Offer(const Algorithm& algorithm, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  std::memcpy(&result->algo, &algorithm, sizeof(algorithm));
  result->workspaceSize = algorithm.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1;
}

// The best ones split the sums, if they may, the first of them so that partial sums are rounded to
// a type that is less than what is computed in. The last one does not.
int Choose(const cublasLtMatmulPreferenceOpaque_t& preference, uint64_t problem, const Layout& d,
           bool splits, int wanted, cublasLtMatmulHeuristicResult_t* results) {
  Algorithm algorithm = {};
  algorithm.made_here = kMadeHere;
  algorithm.problem = problem;
  for (int i = 0; i < 4; ++i) {
    algorithm.alignment[i] = std::min(preference.alignment[i], kMostAlignment);
  }
  const uint64_t split = 2 * sizeof(float) * d.rows * d.columns;
  int count = 0;
  const auto offer_split = [&](int32_t id, uint32_t reduction) {
    if (!splits || (preference.reduction_mask & reduction) == 0 || preference.workspace < split ||
        count == wanted) {
      return;
    }
    algorithm.id = id;
    algorithm.splits = 2;
    algorithm.reduction = reduction;
    algorithm.workspace = split;
    Offer(algorithm, results + count++);
  };
  if (d.type == CUDA_R_16BF) offer_split(22, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
  offer_split(21, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  if (count == wanted) return count;
  algorithm.id = 20;
  algorithm.splits = 1;
  algorithm.reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  algorithm.workspace = std::min<uint64_t>(preference.workspace, 256);
  Offer(algorithm, results + count++);
  return count;
}

bool Aligned(const void* memory, uint32_t bytes) {
  return reinterpret_cast<uintptr_t>(memory) % bytes == 0;
}

size_t BytesOfType(const Layout& layout) {
  return layout.type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

// Bytes from the first to the last element.
size_t BytesOf(const Layout& layout) {
  const bool columns = layout.order == CUBLASLT_ORDER_COL;
  const uint64_t lines = columns ? layout.columns : layout.rows;
  const uint64_t last = columns ? layout.rows : layout.columns;
  const size_t elements = (lines - 1) * layout.leading + last +
                          static_cast<size_t>(layout.batch - 1) * layout.batch_stride;
  return elements * BytesOfType(layout);
}

Matrix View(const Layout& layout, int32_t operation, const void* data, int32_t batch) {
  Matrix matrix;
  matrix.bfloat16 = layout.type == CUDA_R_16BF;
  const size_t bytes = BytesOfType(layout);
  matrix.data = static_cast<char*>(const_cast<void*>(data)) +
                batch * layout.batch_stride * static_cast<int64_t>(bytes);
  matrix.row_stride = layout.order == CUBLASLT_ORDER_COL ? 1 : layout.leading;
  matrix.column_stride = layout.order == CUBLASLT_ORDER_COL ? layout.leading : 1;
  if (operation != CUBLAS_OP_N) std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

// A call of cublasLtMatmul, with copies of what it was given.
struct Multiplication {
  cublasLtMatmulDescOpaque_t description;
  Layout a_layout, b_layout, c_layout, d_layout;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  const void* alpha;
  const void* beta;
  float host_alpha = 0;
  float host_beta = 0;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;  // That the algorithm writes to.
};

bool Run(const Multiplication& call, bool relu_keeps_nan) {
  // Its beginning stands for all of it, which may be much.
  FillWithGarbage(call.workspace, std::min<size_t>(call.workspace_bytes, 64 << 10));
  const bool host = call.description.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  Product product;
  product.rows = call.d_layout.rows;
  product.columns = call.d_layout.columns;
  product.inner = ColumnsOf(call.a_layout, call.description.transpose_a);
  product.alpha = host ? call.host_alpha : *static_cast<const float*>(call.alpha);
  product.beta = host ? call.host_beta : *static_cast<const float*>(call.beta);
  if ((call.description.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
    product.bias = call.description.bias;
  }
  product.relu = (call.description.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
  product.relu_keeps_nan = relu_keeps_nan;
  product.precision = call.description.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Precision::kTf32
                      : call.description.compute == CUBLAS_COMPUTE_32F_FAST_16BF
                          ? Precision::kBfloat16
                          : Precision::kFloat;
  for (int32_t i = 0; i < call.d_layout.batch; ++i) {
    product.a = View(call.a_layout, call.description.transpose_a, call.a, i);
    product.b = View(call.b_layout, call.description.transpose_b, call.b, i);
    product.c = View(call.c_layout, CUBLAS_OP_N, call.c, i);
    product.d = View(call.d_layout, CUBLAS_OP_N, call.d, i);
    Compute(product);
  }
  return true;
}

// All that a GPU would read and write lies in its memory.
bool InMemory(const Memory& memory, const Multiplication& call) {
  const bool biased = (call.description.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  return memory.OnDevice(call.a, BytesOf(call.a_layout)) &&
         memory.OnDevice(call.b, BytesOf(call.b_layout)) &&
         memory.OnDevice(call.c, BytesOf(call.c_layout)) &&
         memory.OnDevice(call.d, BytesOf(call.d_layout)) &&
         (!biased || memory.OnDevice(call.description.bias,
                                     call.d_layout.rows * BytesOfType(call.d_layout))) &&
         (call.workspace_bytes == 0 || memory.OnDevice(call.workspace, call.workspace_bytes));
}

cublasStatus_t CheckAlgorithm(const Algorithm& algorithm, const Multiplication& call,
                              const Layouts& layouts, size_t workspace_bytes) {
  if (algorithm.made_here != kMadeHere || workspace_bytes < algorithm.workspace ||
      (algorithm.workspace > 0 && call.workspace == nullptr) || !Aligned(call.workspace, 16)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const void* pointers[] = {call.a, call.b, call.c, call.d};
  bool aligned = true;
  for (int i = 0; i < 4; ++i) {
    aligned = aligned && Aligned(pointers[i], std::max<uint32_t>(algorithm.alignment[i], 1));
  }
  if (!aligned || algorithm.problem != ProblemOf(call.description, layouts)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t EnqueueProduct(const Multiplication& call, cudaStream_t stream) {
  bool in_memory = false;
  const cudaError_t error = Call([&](Device* device) {
    in_memory = InMemory(device->memory, call);
    if (!in_memory) return cudaErrorInvalidValue;
    if (device->launch.Happens()) return device->launch.error;
    ++device->counts.launches;
    const CUstream_st* of = FindStream(device, stream);
    if (of == nullptr || !IsOfCurrentDevice(*device, of)) return cudaErrorInvalidResourceHandle;
    return Enqueue(device, stream, [device, call, index = CurrentDevice()] {
      return Execute(device, index, [&] { Run(call, device->relu_keeps_nan); });
    });
  });
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  return error == cudaErrorInvalidValue && !in_memory ? CUBLAS_STATUS_INVALID_VALUE
                                                      : CUBLAS_STATUS_EXECUTION_FAILED;
}

KnownProducts Known() {
  Device& device = TheDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  return device.products;
}

template <typename T>
cublasStatus_t GetValue(T field, void* value, size_t bytes, size_t* written) {
  if (written != nullptr) *written = sizeof(T);
  if (bytes == 0 && written != nullptr) return CUBLAS_STATUS_SUCCESS;
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &field, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cuda_emulation

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  *count = 0;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted <= 0 || preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const cuda_emulation::Layouts layouts = {a, b, c, d};
  const cublasStatus_t status = cuda_emulation::CheckProblem(description, layouts);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (preference->search_mode != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cuda_emulation::KnownProducts known = cuda_emulation::Known();
  if (known == cuda_emulation::KnownProducts::kNone) return CUBLAS_STATUS_SUCCESS;
  const bool biased = (description->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (known == cuda_emulation::KnownProducts::kWithoutBias && biased) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *count = cuda_emulation::Choose(*preference, cuda_emulation::ProblemOf(*description, layouts), *d,
                                  /*splits=*/known != cuda_emulation::KnownProducts::kUndivided,
                                  wanted, results);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  cuda_emulation::Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return cuda_emulation::GetValue(algorithm.id, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return cuda_emulation::GetValue(algorithm.splits, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return cuda_emulation::GetValue(algorithm.reduction, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      return cuda_emulation::GetValue(uint32_t{0}, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return cuda_emulation::GetValue(uint16_t{0}, value, bytes, written);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->device != cuda_emulation::CurrentDevice()) return CUBLAS_STATUS_INVALID_VALUE;
  const cuda_emulation::Layouts layouts = {a_layout, b_layout, c_layout, d_layout};
  const cublasStatus_t status = cuda_emulation::CheckProblem(description, layouts);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || c == nullptr ||
      d == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool same = c == d && (c_layout->leading != d_layout->leading ||
                               c_layout->batch_stride != d_layout->batch_stride);
  if (same) return CUBLAS_STATUS_INVALID_VALUE;
  cuda_emulation::Multiplication call = {
      *description, *a_layout, *b_layout, *c_layout, *d_layout, a, b, c, d, alpha, beta};
  if (description->pointer_mode == CUBLASLT_POINTER_MODE_HOST) {
    call.host_alpha = *static_cast<const float*>(alpha);
    call.host_beta = *static_cast<const float*>(beta);
  }
  call.workspace = workspace;
  if (algo != nullptr) {
    cuda_emulation::Algorithm algorithm;
    std::memcpy(&algorithm, algo, sizeof(algorithm));
    const cublasStatus_t fits =
        cuda_emulation::CheckAlgorithm(algorithm, call, layouts, workspace_bytes);
    if (fits != CUBLAS_STATUS_SUCCESS) return fits;
    call.workspace_bytes = algorithm.workspace;
  }
  return cuda_emulation::EnqueueProduct(call, stream);
}
