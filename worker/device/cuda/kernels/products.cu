// For bfloat16 factors are rounded by a kernel of ours, once for each product, into the workspace,
// or before, for several. cuBLASLt can do that by itself while it multiplies
// (CUBLAS_COMPUTE_32F_FAST_16BF), but then it reads twice as many bytes, and it may choose
// something more precise instead.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "worker/device/cuda/kernels/fours.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/narrow.h"
#include "worker/device/cuda/kernels/product_algorithm.h"
#include "worker/device/cuda/kernels/product_plan.h"
#include "worker/device/cuda/kernels/products.h"
#include "worker/device/cuda/kernels/strides.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

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

// c = function(c + bias), without what is not asked for: `bias` may be null.
__global__ void FinishNarrowKernel(const float* __restrict__ bias, bool relu, uint32_t columns,
                                   size_t count, __nv_bfloat16* __restrict__ c) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    float value = ToFloat(c[i]);
    if (bias != nullptr) value += bias[i - Quotient(i, columns) * columns];
    if (relu && value < 0) value = 0;
    Store(value, c + i);
  }
}

__global__ void AddBiasKernel(const float* __restrict__ bias, uint32_t columns, size_t count,
                              float* __restrict__ c) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    c[i] += bias[i - Quotient(i, columns) * columns];
  }
}

void CheckAligned(const ProductShape& shape, const void* pointer, uint32_t alignment,
                  const char* name) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
  throw Error(Error::kOther, "the product of " + Describe(shape) + ": `" + name +
                                 "` is not aligned to " + std::to_string(alignment) + " bytes");
}

// ", with bias": cuBLASLt does that; ", bias after it": a kernel of ours. Empty: nobody.
std::string Told(bool asked, bool with_it, const char* name) {
  if (!asked) return "";
  return with_it ? std::string(", with ") + name : std::string(", ") + name + " after it";
}

class LtProducts final : public Products {
 public:
  LtProducts(cudaStream_t stream, bool deterministic)
      : stream_(stream), planner_(stream, deterministic) {}

  size_t WorkspaceBytes(const ProductShape& shape) const override {
    if (!HasNarrowFactors(shape)) return kProductWorkspace;
    const size_t bias = shape.narrow && shape.bias ? static_cast<size_t>(shape.columns) : 0;
    return kProductWorkspace + NarrowBytes(bias) + NarrowBytes(SizeOfA(shape)) +
           NarrowBytes(SizeOfB(shape));
  }
  void Prepare(const ProductShape& shape) override { PlanOf(shape, /*tries=*/true); }
  std::vector<std::string> Chosen() const override;
  void Multiply(const ProductShape& shape, const Factor& a, const Factor& b, const float* bias,
                void* c, void* workspace) override;
  Factor Narrow(const float* factor, size_t elements, void* place) override;

 private:
  const ProductPlan& PlanOf(const ProductShape& shape, bool tries);
  // Where it is in bfloat16: it may have to be rounded to *place, which moves on behind it.
  const void* Narrowed(const Factor& factor, size_t elements, char** place);
  // What the shape asks for and the plan's epilogue does not do.
  void Finish(const ProductShape& shape, const Epilogue& done, const float* bias, void* c);

  const cudaStream_t stream_;
  const ProductPlanner planner_;
  std::map<ProductShape, ProductPlan> plans_;
};

const ProductPlan& LtProducts::PlanOf(const ProductShape& shape, bool tries) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(shape, planner_.Plan(shape, tries)).first->second;
}

std::vector<std::string> LtProducts::Chosen() const {
  std::vector<std::string> lines;
  for (const auto& [shape, plan] : plans_) {
    lines.push_back(Describe(shape) + (shape.transpose_a ? ", a transposed" : "") +
                    (shape.transpose_b ? ", b transposed" : "") +
                    Told(shape.bias, plan.epilogue.bias, "bias") +
                    Told(shape.relu, plan.epilogue.relu, "relu") + ", " + NameOf(shape.precision) +
                    (shape.narrow ? ", kept so: " : ": ") + AlgorithmText(plan.algorithm));
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

void LtProducts::Finish(const ProductShape& shape, const Epilogue& done, const float* bias,
                        void* c) {
  const bool adds = shape.bias && !done.bias;
  const bool rectifies = shape.relu && !done.relu;
  const auto columns = static_cast<uint32_t>(shape.columns);
  if (shape.narrow) {
    if (!adds && !rectifies) return;
    return LaunchFor(stream_, SizeOfC(shape), FinishNarrowKernel, adds ? bias : nullptr, rectifies,
                     columns, SizeOfC(shape), static_cast<__nv_bfloat16*>(c));
  }
  auto* const floats = static_cast<float*>(c);
  if (adds) {
    LaunchFor(stream_, SizeOfC(shape), AddBiasKernel, bias, columns, SizeOfC(shape), floats);
  }
  if (rectifies) {
    ApplyFunction(stream_, Function::kRelu, shape.rows, shape.columns, floats);
  }
}

void LtProducts::Multiply(const ProductShape& shape, const Factor& a, const Factor& b,
                          const float* bias, void* c, void* workspace) {
  CheckAligned(shape, a.values, kProductAlignment, "a");
  CheckAligned(shape, b.values, kProductAlignment, "b");
  CheckAligned(shape, c, kProductAlignment, "c");
  CheckAligned(shape, workspace, kWorkspaceAlignment, "workspace");
  if (shape.bias) CheckAligned(shape, bias, kProductAlignment, "bias");
  const ProductPlan& plan = PlanOf(shape, /*tries=*/false);
  const void* factors[] = {a.values, b.values};
  const void* added = bias;
  if (HasNarrowFactors(shape)) {
    char* place = static_cast<char*>(workspace) + kProductWorkspace;
    if (shape.narrow && plan.epilogue.bias) {
      added = Narrowed(bias, static_cast<size_t>(shape.columns), &place);
    }
    factors[0] = Narrowed(a, SizeOfA(shape), &place);
    factors[1] = Narrowed(b, SizeOfB(shape), &place);
  }
  planner_.Enqueue(plan, factors[0], factors[1], added, c, workspace);
  Finish(shape, plan.epilogue, bias, c);
}

}  // namespace

bool ProductShape::operator<(const ProductShape& other) const {
  return std::tie(rows, inner, columns, transpose_a, transpose_b, bias, relu, precision, narrow) <
         std::tie(other.rows, other.inner, other.columns, other.transpose_a, other.transpose_b,
                  other.bias, other.relu, other.precision, other.narrow);
}

size_t Products::NarrowBytes(size_t elements) { return Padded(elements * sizeof(__nv_bfloat16)); }

std::string Products::LibraryName() {
  const size_t version = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

std::unique_ptr<Products> Products::Make(cudaStream_t stream, bool deterministic) {
  return std::make_unique<LtProducts>(stream, deterministic);
}

}  // namespace millrace::cuda
