// cuBLASLt takes matrices column-major, and a row-major matrix is the transpose of the column-major
// one at the same place. So c = a b is asked for as c^T = b^T a^T: `b` comes first, and what is a
// row here is a column there.
//
// For bfloat16 factors are rounded by a kernel of ours, once for each product, into the workspace,
// or before, for several. cuBLASLt can do that by itself while it multiplies
// (CUBLAS_COMPUTE_32F_FAST_16BF), but then it reads twice as many bytes, and it may choose
// something more precise instead.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "worker/device/cuda/kernels/fours.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/product_algorithm.h"
#include "worker/device/cuda/kernels/products.h"
#include "worker/device/cuda/kernels/strides.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

constexpr size_t kProductWorkspace = size_t{32} << 20;
// What matrices are aligned to at their begin, so that an algorithm can be chosen before it is
// known where they are. How far apart their rows are is in their layouts, and need not be a
// multiple of it.
constexpr uint32_t kProductAlignment = 16;
constexpr uint32_t kWorkspaceAlignment = 256;  // cuBLASLt's own demand.
constexpr int kMostHeuristics = 16;

// A failed execution may be one launch that did not happen, or the loss of the device, which then
// every call of CUDA tells.
void CheckDevice(const char* call) {
  size_t free = 0;
  size_t total = 0;
  Check(cudaMemGetInfo(&free, &total), call);
}

void CheckBlas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) CheckDevice(call);
  const Error::Kind kind = status == CUBLAS_STATUS_ALLOC_FAILED ? Error::kMemory : Error::kOther;
  throw Error(kind, std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
                        cublasLtGetStatusString(status));
}

// Owns what cuBLASLt makes.
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

// Of a row-major matrix.
LayoutOwner MakeLayout(cudaDataType type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckBlas(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(columns),
                                       static_cast<uint64_t>(rows), columns),
            "cublasLtMatrixLayoutCreate");
  return LayoutOwner(layout);
}

template <typename Value>
void SetProduct(const ProductOwner& product, cublasLtMatmulDescAttributes_t attribute,
                Value value) {
  CheckBlas(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof(value)),
            "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
void SetPreference(const PreferenceOwner& preference,
                   cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  CheckBlas(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

bool IsNarrow(const ProductShape& shape) { return shape.precision == Precision::kBfloat16; }

cudaDataType FactorTypeOf(const ProductShape& shape) {
  return IsNarrow(shape) ? CUDA_R_16BF : CUDA_R_32F;
}

// All add up in float32; the FAST one may round the factors.
cublasComputeType_t ComputeTypeOf(const ProductShape& shape) {
  return shape.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// In elements.
size_t SizeOfA(const ProductShape& shape) { return static_cast<size_t>(shape.rows * shape.inner); }
size_t SizeOfB(const ProductShape& shape) {
  return static_cast<size_t>(shape.inner * shape.columns);
}

// What one instruction stores.
struct alignas(16) EightNarrow {
  __nv_bfloat16 values[8];
};

// Of eight at a time; at last what is left over. REQUIRES: both are aligned to 16 bytes.
__global__ void NarrowKernel(const float* __restrict__ from, size_t count,
                             __nv_bfloat16* __restrict__ to) {
  const size_t eights = count / 8;
  for (size_t i = FirstElement(); i < eights; i += ElementStride()) {
    const FourFloats first = reinterpret_cast<const FourFloats*>(from)[2 * i];
    const FourFloats second = reinterpret_cast<const FourFloats*>(from)[2 * i + 1];
    EightNarrow eight;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      eight.values[k] = __float2bfloat16_rn(first.values[k]);
      eight.values[k + 4] = __float2bfloat16_rn(second.values[k]);
    }
    reinterpret_cast<EightNarrow*>(to)[i] = eight;
  }
  const size_t last = 8 * eights + FirstElement();
  if (last < count) to[last] = __float2bfloat16_rn(from[last]);
}

ProductOwner MakeProduct(const ProductShape& shape) {
  cublasLtMatmulDesc_t created = nullptr;
  CheckBlas(cublasLtMatmulDescCreate(&created, ComputeTypeOf(shape), CUDA_R_32F),
            "cublasLtMatmulDescCreate");
  ProductOwner product(created);
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  SetProduct(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.transpose_b));
  SetProduct(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.transpose_a));
  if (!shape.bias) return product;
  SetProduct(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  // Where it is, is said later; that there is one, and that it is aligned, must be known before.
  SetProduct(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, uintptr_t{kWorkspaceAlignment});
  return product;
}

// Ways to divide a sum. Deterministic: its parts are added up in one order afterwards.
uint32_t ReductionMask(bool deterministic) {
  return deterministic ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
}

PreferenceOwner MakePreference(bool deterministic) {
  cublasLtMatmulPreference_t created = nullptr;
  CheckBlas(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  PreferenceOwner preference(created);
  SetPreference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kProductWorkspace});
  SetPreference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                ReductionMask(deterministic));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    SetPreference(preference, attribute, kProductAlignment);
  }
  return preference;
}

bool IsReproducible(const cublasLtMatmulAlgo_t& algorithm) {
  uint32_t reduction = 0;
  size_t written = 0;
  CheckBlas(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                 &reduction, sizeof(reduction), &written),
            "cublasLtMatmulAlgoConfigGetAttribute");
  return reduction == CUBLASLT_REDUCTION_SCHEME_NONE ||
         reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

std::string Describe(const ProductShape& shape) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.inner) + " by " +
         std::to_string(shape.inner) + " x " + std::to_string(shape.columns);
}

const char* NameOf(Precision precision) {
  switch (precision) {
    case Precision::kTf32:
      return "tf32";
    case Precision::kBfloat16:
      return "bfloat16";
    default:
      return "float32";
  }
}

__global__ void AddBiasKernel(const float* __restrict__ bias, uint32_t columns, size_t count,
                              float* __restrict__ c) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    c[i] += bias[i - Quotient(i, columns) * columns];
  }
}

// How one shape is multiplied. Names are the row-major ones.
struct ProductPlan {
  ProductOwner product;
  LayoutOwner a;
  LayoutOwner b;
  LayoutOwner c;
  cublasLtMatmulAlgo_t algorithm = {};
  bool adds_bias = false;  // cuBLASLt does; otherwise a kernel of ours.
};

ProductPlan MakePlan(const ProductShape& shape) {
  ProductPlan plan;
  plan.product = MakeProduct(shape);
  const cudaDataType type = FactorTypeOf(shape);
  plan.a = shape.transpose_a ? MakeLayout(type, shape.inner, shape.rows)
                             : MakeLayout(type, shape.rows, shape.inner);
  plan.b = shape.transpose_b ? MakeLayout(type, shape.columns, shape.inner)
                             : MakeLayout(type, shape.inner, shape.columns);
  plan.c = MakeLayout(CUDA_R_32F, shape.rows, shape.columns);
  plan.adds_bias = shape.bias;
  return plan;
}

void CheckAligned(const ProductShape& shape, const void* pointer, uint32_t alignment,
                  const char* name) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
  throw Error(Error::kOther, "the product of " + Describe(shape) + ": `" + name +
                                 "` is not aligned to " + std::to_string(alignment) + " bytes");
}

class LtProducts final : public Products {
 public:
  LtProducts(cudaStream_t stream, bool deterministic)
      : stream_(stream), deterministic_(deterministic) {
    cublasLtHandle_t created = nullptr;
    CheckBlas(cublasLtCreate(&created), "cublasLtCreate");
    lt_.reset(created);
    preference_ = MakePreference(deterministic);
  }

  size_t WorkspaceBytes(const ProductShape& shape) const override {
    if (!IsNarrow(shape)) return kProductWorkspace;
    return kProductWorkspace + NarrowBytes(SizeOfA(shape)) + NarrowBytes(SizeOfB(shape));
  }
  void Prepare(const ProductShape& shape) override { PlanOf(shape); }
  std::vector<std::string> Chosen() const override;
  void Multiply(const ProductShape& shape, const Factor& a, const Factor& b, const float* bias,
                float* c, void* workspace) override;
  Factor Narrow(const float* factor, size_t elements, void* place) override;

 private:
  const ProductPlan& PlanOf(const ProductShape& shape);
  // Where it is in bfloat16: it may have to be rounded to *place, which moves on behind it.
  const void* Narrowed(const Factor& factor, size_t elements, char** place);
  // False: there is none.
  bool ChooseAlgorithm(const ProductShape& shape, ProductPlan* plan) const;

  const cudaStream_t stream_;
  const bool deterministic_;
  LtOwner lt_;
  PreferenceOwner preference_;
  std::map<ProductShape, ProductPlan> plans_;
};

const ProductPlan& LtProducts::PlanOf(const ProductShape& shape) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second;
  ProductPlan plan = MakePlan(shape);
  bool chosen = ChooseAlgorithm(shape, &plan);
  if (!chosen && shape.bias) {
    ProductShape without_bias = shape;
    without_bias.bias = false;
    plan = MakePlan(without_bias);
    chosen = ChooseAlgorithm(shape, &plan);
  }
  if (!chosen) {
    throw Error(Error::kOther, "cublasLtMatmulAlgoGetHeuristic of " + Describe(shape) + " in " +
                                   NameOf(shape.precision) + ": it has no algorithm" +
                                   (deterministic_ ? " whose sums have one order" : ""));
  }
  return plans_.emplace(shape, std::move(plan)).first->second;
}

std::vector<std::string> LtProducts::Chosen() const {
  std::vector<std::string> lines;
  for (const auto& [shape, plan] : plans_) {
    const char* const bias = plan.adds_bias ? ", with bias" : shape.bias ? ", bias after it" : "";
    lines.push_back(Describe(shape) + (shape.transpose_a ? ", a transposed" : "") +
                    (shape.transpose_b ? ", b transposed" : "") + bias + ", " +
                    NameOf(shape.precision) + ": " + AlgorithmText(plan.algorithm));
  }
  return lines;
}

Factor LtProducts::Narrow(const float* factor, size_t elements, void* place) {
  if (!AlignedForFours(factor, static_cast<const char*>(place))) {
    throw Error(Error::kOther, "a factor to round, or its place, is not aligned to 16 bytes");
  }
  if (elements > 0) {
    Launch(stream_, BlocksFor(elements / 8), kThreads, NarrowKernel, factor, elements,
           static_cast<__nv_bfloat16*>(place));
  }
  return {factor, place};
}

const void* LtProducts::Narrowed(const Factor& factor, size_t elements, char** place) {
  if (factor.narrow != nullptr) return factor.narrow;
  char* const to = *place;
  *place += NarrowBytes(elements);
  return Narrow(factor.values, elements, to).narrow;
}

bool LtProducts::ChooseAlgorithm(const ProductShape& shape, ProductPlan* plan) const {
  cublasLtMatmulHeuristicResult_t results[kMostHeuristics] = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      lt_.get(), plan->product.get(), plan->b.get(), plan->a.get(), plan->c.get(), plan->c.get(),
      preference_.get(), kMostHeuristics, results, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  CheckBlas(status, ("cublasLtMatmulAlgoGetHeuristic of " + Describe(shape)).c_str());
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (deterministic_ && !IsReproducible(results[i].algo)) continue;
    plan->algorithm = results[i].algo;
    return true;
  }
  return false;
}

void LtProducts::Multiply(const ProductShape& shape, const Factor& a, const Factor& b,
                          const float* bias, float* c, void* workspace) {
  CheckAligned(shape, a.values, kProductAlignment, "a");
  CheckAligned(shape, b.values, kProductAlignment, "b");
  CheckAligned(shape, c, kProductAlignment, "c");
  CheckAligned(shape, workspace, kWorkspaceAlignment, "workspace");
  const ProductPlan& plan = PlanOf(shape);
  if (shape.bias) {
    CheckAligned(shape, bias, kProductAlignment, "bias");
    if (plan.adds_bias) SetProduct(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  const void* factors[] = {a.values, b.values};
  if (IsNarrow(shape)) {
    char* place = static_cast<char*>(workspace) + kProductWorkspace;
    factors[0] = Narrowed(a, SizeOfA(shape), &place);
    factors[1] = Narrowed(b, SizeOfB(shape), &place);
  }
  const float one = 1;
  const float zero = 0;
  CheckBlas(cublasLtMatmul(lt_.get(), plan.product.get(), &one, factors[1], plan.b.get(),
                           factors[0], plan.a.get(), &zero, c, plan.c.get(), c, plan.c.get(),
                           &plan.algorithm, workspace, kProductWorkspace, stream_),
            "cublasLtMatmul");
  if (shape.bias && !plan.adds_bias) {
    const auto count = static_cast<size_t>(shape.rows * shape.columns);
    LaunchFor(stream_, count, AddBiasKernel, bias, static_cast<uint32_t>(shape.columns), count, c);
  }
  // cuBLASLt has this too, but does not say what it makes of NaN, which must stay NaN.
  if (shape.relu) ApplyFunction(stream_, Function::kRelu, shape.rows, shape.columns, c);
}

}  // namespace

bool ProductShape::operator<(const ProductShape& other) const {
  return std::tie(rows, inner, columns, transpose_a, transpose_b, bias, relu, precision) <
         std::tie(other.rows, other.inner, other.columns, other.transpose_a, other.transpose_b,
                  other.bias, other.relu, other.precision);
}

// So that what follows in a workspace is aligned as it begins.
size_t Products::NarrowBytes(size_t elements) {
  return (elements * sizeof(__nv_bfloat16) + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
         kWorkspaceAlignment;
}

std::string Products::LibraryName() {
  const size_t version = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

std::unique_ptr<Products> Products::Make(cudaStream_t stream, bool deterministic) {
  return std::make_unique<LtProducts>(stream, deterministic);
}

}  // namespace millrace::cuda
