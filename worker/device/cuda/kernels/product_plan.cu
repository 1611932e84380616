// cuBLASLt takes matrices column-major, and a row-major matrix is the transpose of the column-major
// one at the same place. So c = a b is asked for as c^T = b^T a^T: `b` comes first, and what is a
// row here is a column there.
#include <cuda_bf16.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/device/cuda/kernels/handles.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/narrow.h"
#include "worker/device/cuda/kernels/nccl_lock.h"
#include "worker/device/cuda/kernels/product_plan.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

constexpr int kMostHeuristics = 16;
constexpr int kNanByte = 0xff;  // Floats of any type are NaN where all bytes are this.

using MemoryOwner = HandleOwner<void*, cudaFree>;

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

cudaDataType CudaTypeOf(bool narrow) { return narrow ? CUDA_R_16BF : CUDA_R_32F; }
size_t ElementBytes(bool narrow) { return narrow ? sizeof(__nv_bfloat16) : sizeof(float); }

// All add up in float32; the FAST one may round the factors.
cublasComputeType_t ComputeTypeOf(const ProductShape& shape) {
  return shape.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t EpilogueOf(const Epilogue& epilogue) {
  if (epilogue.relu) return epilogue.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return epilogue.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

ProductOwner MakeProduct(const ProductShape& shape, const Epilogue& epilogue) {
  cublasLtMatmulDesc_t created = nullptr;
  CheckBlas(cublasLtMatmulDescCreate(&created, ComputeTypeOf(shape), CUDA_R_32F),
            "cublasLtMatmulDescCreate");
  ProductOwner product(created);
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  SetProduct(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.transpose_b));
  SetProduct(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.transpose_a));
  SetProduct(product, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(epilogue));
  if (!epilogue.bias) return product;
  // Where it is, is said later; that there is one, and that it is aligned, must be known before.
  SetProduct(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, uintptr_t{kProductAlignment});
  return product;
}

// Ways to divide a sum. In one order: its parts, in float32, are added up afterwards; others may
// keep them in c's type.
uint32_t ReductionMask(bool one_order) {
  return one_order ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
}

PreferenceOwner MakePreference(bool one_order) {
  cublasLtMatmulPreference_t created = nullptr;
  CheckBlas(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  PreferenceOwner preference(created);
  SetPreference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kProductWorkspace});
  SetPreference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, ReductionMask(one_order));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    SetPreference(preference, attribute, kProductAlignment);
  }
  return preference;
}

// Whether it adds up in one order. One that does not tell how it adds up is not known to do so.
bool HasOneOrder(const cublasLtMatmulAlgo_t& algorithm) {
  uint32_t reduction = 0;
  size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof(reduction), &written);
  if (status != CUBLAS_STATUS_SUCCESS) return false;
  return reduction == CUBLASLT_REDUCTION_SCHEME_NONE ||
         reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

ProductPlan MakePlan(const ProductShape& shape, const Epilogue& epilogue) {
  ProductPlan plan;
  plan.product = MakeProduct(shape, epilogue);
  const cudaDataType type = CudaTypeOf(HasNarrowFactors(shape));
  plan.a = shape.transpose_a ? MakeLayout(type, shape.inner, shape.rows)
                             : MakeLayout(type, shape.rows, shape.inner);
  plan.b = shape.transpose_b ? MakeLayout(type, shape.columns, shape.inner)
                             : MakeLayout(type, shape.inner, shape.columns);
  plan.c = MakeLayout(CudaTypeOf(shape.narrow_result), shape.rows, shape.columns);
  plan.epilogue = epilogue;
  return plan;
}

// What may be asked of cuBLASLt, most first.
std::vector<Epilogue> EpiloguesFor(const ProductShape& shape, bool with_relu) {
  std::vector<Epilogue> epilogues;
  if (with_relu && shape.relu) epilogues.push_back({.bias = shape.bias, .relu = true});
  if (shape.bias) epilogues.push_back({.bias = true});
  epilogues.push_back({});
  return epilogues;
}

// Whether cuBLASLt has no algorithm. What it calls invalid may be so with this epilogue alone.
bool IsRefusal(cublasStatus_t status, const Epilogue& epilogue) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ||
         (status == CUBLAS_STATUS_INVALID_VALUE && (epilogue.bias || epilogue.relu));
}

// Where a product of nothing but NaN is computed. Both factors and the bias are in one place.
class NanTrial {
 public:
  // Enqueues their values.
  NanTrial(const ProductShape& shape, cudaStream_t stream)
      : stream_(stream),
        count_(SizeOfC(shape)),
        narrow_(shape.narrow_result),
        given_bytes_(Padded(std::max(
            std::max(SizeOfA(shape), SizeOfB(shape)) * ElementBytes(HasNarrowFactors(shape)),
            static_cast<size_t>(shape.columns) * ElementBytes(narrow_)))),
        result_bytes_(Padded(count_ * ElementBytes(narrow_))),
        memory_(Allocated(given_bytes_ + result_bytes_ + kProductWorkspace)) {
    Check(cudaMemsetAsync(memory_.get(), kNanByte, given_bytes_, stream_), "cudaMemsetAsync");
  }

  const void* given() const { return memory_.get(); }
  void* result() const { return At(given_bytes_); }
  void* workspace() const { return At(given_bytes_ + result_bytes_); }

  // Blocks until the product has been computed.
  bool ResultIsNan() const;

 private:
  static MemoryOwner Allocated(size_t bytes) {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, bytes), "cudaMalloc for a trial of a product");
    return MemoryOwner(memory);
  }
  char* At(size_t place) const { return static_cast<char*>(memory_.get()) + place; }

  const cudaStream_t stream_;
  const size_t count_;
  const bool narrow_;
  const size_t given_bytes_;
  const size_t result_bytes_;
  const MemoryOwner memory_;
};

// *found = 1 if any value is a number.
template <typename Value>
__global__ void FindNumberKernel(const Value* __restrict__ values, size_t count, uint32_t* found) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const float value = ToFloat(values[i]);
    if (value == value) *found = 1;
  }
}

// The workspace has served.
bool NanTrial::ResultIsNan() const {
  auto* const on_device = static_cast<uint32_t*>(workspace());
  uint32_t found = 0;
  Check(cudaMemsetAsync(on_device, 0, sizeof(found), stream_), "cudaMemsetAsync");
  if (narrow_) {
    LaunchFor(stream_, count_, FindNumberKernel<__nv_bfloat16>,
              static_cast<const __nv_bfloat16*>(result()), count_, on_device);
  } else {
    LaunchFor(stream_, count_, FindNumberKernel<float>, static_cast<const float*>(result()), count_,
              on_device);
  }
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  // On the legacy stream, which waits for none of ours.
  Check(cudaMemcpy(&found, on_device, sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return found == 0;
}

}  // namespace

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

ProductPlanner::ProductPlanner(cudaStream_t stream, bool deterministic)
    : stream_(stream),
      deterministic_(deterministic),
      lt_(TakeLt()),
      any_order_(MakePreference(/*one_order=*/false)),
      one_order_(MakePreference(/*one_order=*/true)) {}

// Partial sums of a narrow result would be of bfloat16 otherwise.
bool ProductPlanner::WantsOneOrder(const ProductShape& shape) const {
  return deterministic_ || shape.narrow_result;
}

ProductPlan ProductPlanner::Plan(const ProductShape& shape, bool tries) const {
  for (const Epilogue& epilogue : EpiloguesFor(shape, /*with_relu=*/tries)) {
    ProductPlan plan = MakePlan(shape, epilogue);
    const std::vector<SuggestedAlgorithm> suggested = Suggested(shape, plan);
    if (suggested.empty()) continue;
    plan.algorithm = suggested.front().algorithm;
    if (!epilogue.relu || KeepsNan(shape, plan)) return plan;
  }
  throw Error(Error::kOther, "cublasLtMatmulAlgoGetHeuristic of " + Describe(shape) + " in " +
                                 NameOf(shape.precision) + ": it has no algorithm" +
                                 (WantsOneOrder(shape) ? " whose sums have one order" : ""));
}

std::vector<SuggestedAlgorithm> ProductPlanner::Suggested(const ProductShape& shape,
                                                          const ProductPlan& plan) const {
  const bool one_order = WantsOneOrder(shape);
  cublasLtMatmulHeuristicResult_t results[kMostHeuristics] = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      lt_.get(), plan.product.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
      (one_order ? one_order_ : any_order_).get(), kMostHeuristics, results, &count);
  std::vector<SuggestedAlgorithm> suggested;
  if (IsRefusal(status, plan.epilogue)) return suggested;
  CheckBlas(status, ("cublasLtMatmulAlgoGetHeuristic of " + Describe(shape)).c_str());
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (one_order && !HasOneOrder(results[i].algo)) continue;
    suggested.push_back({results[i].algo});
  }
  return suggested;
}

bool ProductPlanner::KeepsNan(const ProductShape& shape, const ProductPlan& plan) const {
  const auto lock = ShareNcclLock();
  const NanTrial trial(shape, stream_);
  Enqueue(plan, trial.given(), trial.given(), trial.given(), trial.result(), trial.workspace());
  return trial.ResultIsNan();
}

void ProductPlanner::Enqueue(const ProductPlan& plan, const void* a, const void* b,
                             const void* bias, void* c, void* workspace) const {
  if (plan.epilogue.bias) SetProduct(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1;
  const float zero = 0;
  CheckBlas(cublasLtMatmul(lt_.get(), plan.product.get(), &one, b, plan.b.get(), a, plan.a.get(),
                           &zero, c, plan.c.get(), c, plan.c.get(), &plan.algorithm, workspace,
                           kProductWorkspace, stream_),
            "cublasLtMatmul");
}

}  // namespace millrace::cuda
