// How cuBLASLt multiplies matrices of one shape: by which algorithm, and what it does to a product
// before it stores it.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCT_PLAN_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCT_PLAN_H_

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/device/cuda/kernels/cublas_lt.h"
#include "worker/device/cuda/kernels/products.h"

namespace millrace::cuda {

// What matrices are aligned to at their begin, so that an algorithm can be chosen before it is
// known where they are. How far apart their rows are is in their layouts, and need not be a
// multiple of it.
inline constexpr uint32_t kProductAlignment = 16;
inline constexpr uint32_t kWorkspaceAlignment = 256;  // cuBLASLt's own demand.

// Factors are in bfloat16, not float32.
inline bool HasNarrowFactors(const ProductShape& shape) {
  return shape.precision == Precision::kBfloat16;
}

// In elements.
inline size_t SizeOfA(const ProductShape& shape) {
  return static_cast<size_t>(shape.rows * shape.inner);
}
inline size_t SizeOfB(const ProductShape& shape) {
  return static_cast<size_t>(shape.inner * shape.columns);
}
inline size_t SizeOfC(const ProductShape& shape) {
  return static_cast<size_t>(shape.rows * shape.columns);
}

// So that what follows behind so many bytes of a workspace is aligned as it is.
inline size_t Padded(size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// "2 x 3 by 3 x 5".
std::string Describe(const ProductShape& shape);
const char* NameOf(Precision precision);

// What cuBLASLt does of what the shape asks for. The rest is done to its result afterwards.
struct Epilogue {
  bool bias = false;
  bool relu = false;
};

// Names are the row-major ones.
struct ProductPlan {
  ProductOwner product;
  LayoutOwner a;
  LayoutOwner b;
  LayoutOwner c;
  cublasLtMatmulAlgo_t algorithm = {};
  Epilogue epilogue;
};

// One that cuBLASLt suggests. A vector of its own type, which has no name, nvcc 13.0 cannot
// compile.
struct SuggestedAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
};

// Used by one thread at a time.
class ProductPlanner {
 public:
  ProductPlanner(cudaStream_t stream, bool deterministic);

  // Chooses by the shape and `tries` alone. Throws Error where cuBLASLt has no algorithm.
  // `tries`: may allocate and block, which nothing that is captured may. Without, ReLU is left to
  // be done afterwards, since what cuBLASLt makes of NaN there can only be found by trying: NaN
  // must stay NaN, so that a loss that is not a number is seen.
  ProductPlan Plan(const ProductShape& shape, bool tries) const;

  // The algorithms that cuBLASLt suggests and that may serve, best first as it thinks: Plan takes
  // the first. None: it has none.
  std::vector<SuggestedAlgorithm> Suggested(const ProductShape& shape,
                                            const ProductPlan& plan) const;

  // Enqueues c = a b and the plan's epilogue. a and b are of bfloat16 where HasNarrowFactors, bias
  // and c where the result is narrow. `bias` may be null where the epilogue has none.
  void Enqueue(const ProductPlan& plan, const void* a, const void* b, const void* bias, void* c,
               void* workspace) const;

 private:
  bool WantsOneOrder(const ProductShape& shape) const;
  bool KeepsNan(const ProductShape& shape, const ProductPlan& plan) const;

  const cudaStream_t stream_;
  const bool deterministic_;
  LtOwner lt_;
  PreferenceOwner any_order_;
  PreferenceOwner one_order_;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_PRODUCT_PLAN_H_
