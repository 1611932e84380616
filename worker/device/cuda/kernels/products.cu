// For bfloat16 factors are rounded by a kernel of ours, once for each product, into the workspace,
// or before, for several. cuBLASLt can do that by itself while it multiplies
// (CUBLAS_COMPUTE_32F_FAST_16BF), but then it reads twice as many bytes, and it may choose
// something more precise instead. The bias of a product whose result is of bfloat16 is rounded
// likewise: cuBLASLt takes one of the result's type.
#include <cuda_bf16.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "worker/device/cuda/kernels/fours.h"
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
      Store(first.values[k], eight.values + k);
      Store(second.values[k], eight.values + k + 4);
    }
    reinterpret_cast<EightNarrow*>(to)[i] = eight;
  }
  const size_t last = 8 * eights + FirstElement();
  if (last < count) Store(from[last], to + last);
}

// Adds `bias`, rounded as c is, unless that is null; then applies ReLU, if `relu`.
template <typename Value>
__global__ void FinishKernel(const float* __restrict__ bias, bool relu, uint32_t columns,
                             size_t count, Value* __restrict__ c) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    float value = ToFloat(c[i]);
    if (bias != nullptr) {
      Value added;
      Store(bias[i - Quotient(i, columns) * columns], &added);
      value += ToFloat(added);
    }
    if (relu && value < 0) value = 0;
    Store(value, c + i);
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
    const bool rounds_bias = shape.narrow_result && shape.bias;
    const size_t bias = rounds_bias ? static_cast<size_t>(shape.columns) : 0;
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
  // Where they are in bfloat16: rounded to *place, which moves on behind them.
  const void* Narrowed(const float* values, size_t elements, char** place);
  // Where it is in the type that is multiplied; it may have to be rounded, likewise.
  const void* FactorOf(const ProductShape& shape, const Factor& factor, size_t elements,
                       const char* name, char** place);
  // What the shape asks for and the plan's epilogue does not do.
  template <typename Value>
  void Finish(const ProductShape& shape, const Epilogue& done, const float* bias, Value* c);

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
    lines.push_back(
        Describe(shape) + (shape.transpose_a ? ", a transposed" : "") +
        (shape.transpose_b ? ", b transposed" : "") + Told(shape.bias, plan.epilogue.bias, "bias") +
        Told(shape.relu, plan.epilogue.relu, "relu") + ", " + NameOf(shape.precision) +
        (shape.narrow_result ? ", to bfloat16: " : ": ") + AlgorithmText(plan.algorithm));
  }
  return lines;
}

Factor LtProducts::Narrow(const float* factor, size_t elements, void* place) {
  if (!AlignedForEights(factor, place)) {
    throw Error(Error::kOther, "a factor to round, or its place, is not aligned to 16 bytes");
  }
  if (elements > 0) {
    Launch(stream_, BlocksFor(elements / 8), kThreads, NarrowKernel, factor, elements,
           static_cast<__nv_bfloat16*>(place));
  }
  return {factor, place};
}

const void* LtProducts::Narrowed(const float* values, size_t elements, char** place) {
  char* const to = *place;
  *place += NarrowBytes(elements);
  return Narrow(values, elements, to).narrow;
}

const void* LtProducts::FactorOf(const ProductShape& shape, const Factor& factor, size_t elements,
                                 const char* name, char** place) {
  const bool is_narrow = HasNarrowFactors(shape) && factor.narrow != nullptr;
  const void* const given = is_narrow ? factor.narrow : factor.values;
  CheckAligned(shape, given, kProductAlignment, name);
  return HasNarrowFactors(shape) && !is_narrow ? Narrowed(factor.values, elements, place) : given;
}

template <typename Value>
void LtProducts::Finish(const ProductShape& shape, const Epilogue& done, const float* bias,
                        Value* c) {
  const bool adds = shape.bias && !done.bias;
  const bool rectifies = shape.relu && !done.relu;
  if (!adds && !rectifies) return;
  LaunchFor(stream_, SizeOfC(shape), FinishKernel<Value>, adds ? bias : nullptr, rectifies,
            static_cast<uint32_t>(shape.columns), SizeOfC(shape), c);
}

void LtProducts::Multiply(const ProductShape& shape, const Factor& a, const Factor& b,
                          const float* bias, void* c, void* workspace) {
  CheckAligned(shape, c, kProductAlignment, "c");
  CheckAligned(shape, workspace, kWorkspaceAlignment, "workspace");
  if (shape.bias) CheckAligned(shape, bias, kProductAlignment, "bias");
  const ProductPlan& plan = PlanOf(shape, /*tries=*/false);
  char* place = static_cast<char*>(workspace) + kProductWorkspace;
  const void* added = bias;
  if (shape.narrow_result && plan.epilogue.bias) {
    added = Narrowed(bias, static_cast<size_t>(shape.columns), &place);
  }
  const void* const factors[] = {FactorOf(shape, a, SizeOfA(shape), "a", &place),
                                 FactorOf(shape, b, SizeOfB(shape), "b", &place)};
  planner_.Enqueue(plan, factors[0], factors[1], added, c, workspace);
  if (shape.narrow_result) {
    Finish(shape, plan.epilogue, bias, static_cast<__nv_bfloat16*>(c));
  } else {
    Finish(shape, plan.epilogue, bias, static_cast<float*>(c));
  }
}

}  // namespace

bool ProductShape::operator<(const ProductShape& other) const {
  return std::tie(rows, inner, columns, transpose_a, transpose_b, bias, relu, precision,
                  narrow_result) < std::tie(other.rows, other.inner, other.columns,
                                            other.transpose_a, other.transpose_b, other.bias,
                                            other.relu, other.precision, other.narrow_result);
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
