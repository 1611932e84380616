#include <algorithm>
#include <cfloat>

#include "worker/device/cuda/kernels/arrays.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/fours.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

struct AddPart {
  MILLRACE_DEVICE float operator()(float part, float sum) const { return sum + part; }
};

struct DivideBy {
  MILLRACE_DEVICE float operator()(float value) const { return value / by; }
  float by;
};

struct WithRegularizer {
  MILLRACE_DEVICE float operator()(float value, float gradient) const {
    const float sign = static_cast<float>(value > 0) - static_cast<float>(value < 0);
    return gradient + (l1 * sign + twice_l2 * value);
  }
  float l1;
  float twice_l2;
};

// So many at most: the parameters of a kernel have 4 KiB.
constexpr unsigned kMostTogether = 64;
struct RegularizedVariables {
  Regularized of[kMostTogether];
};

// blockIdx.y is the variable, the threads stride over its elements.
__global__ void RegularizersKernel(RegularizedVariables variables) {
  const Regularized& variable = variables.of[blockIdx.y];
  ApplyTwoByFours(WithRegularizer{variable.l1, variable.twice_l2}, variable.count, variable.values,
                  variable.gradient, variable.gradient);
}

struct SumParts {
  const float* part[kMostGpus];
  size_t count = 0;
};

// A thread reads an element of all parts before it writes it, since one of them may be `sum`.
__global__ void SumKernel(SumParts parts, size_t count, float* sum) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    float all = parts.part[0][i];
    for (size_t k = 1; k < parts.count; ++k) all += parts.part[k][i];
    sum[i] = all;
  }
}

// NaN is not below anything.
MILLRACE_DEVICE bool IsFinite(float value) { return fabsf(value) <= FLT_MAX; }

// Of those that look at gradients so many at most: they run before kernels that a step waits for,
// beside which they leave room, and need not be faster than the copy to the host meanwhile.
constexpr unsigned kMostLookingBlocks = 64;

// A thread asks for so many fours before it looks at the first: so few threads would wait for
// memory most of the time otherwise.
constexpr size_t kLooksAtOnce = 8;

MILLRACE_DEVICE bool AreFinite(FourFloats four) {
  bool finite = true;
#pragma unroll
  for (int k = 0; k < 4; ++k) finite &= IsFinite(four.values[k]);
  return finite;
}

// The first `fours` times four are aligned for them. Whichever threads find something write the
// same.
__global__ void MarkNotFiniteKernel(const float* __restrict__ values, size_t fours, size_t count,
                                    uint64_t* mark) {
  bool finite = true;
  const auto* const in_fours = reinterpret_cast<const FourFloats*>(values);
  const size_t stride = ElementStride();
  size_t next = FirstElement();
  for (; next + (kLooksAtOnce - 1) * stride < fours; next += kLooksAtOnce * stride) {
    FourFloats loaded[kLooksAtOnce];
#pragma unroll
    for (size_t k = 0; k < kLooksAtOnce; ++k) loaded[k] = in_fours[next + k * stride];
#pragma unroll
    for (size_t k = 0; k < kLooksAtOnce; ++k) finite &= AreFinite(loaded[k]);
  }
  for (; next < fours; next += stride) finite &= AreFinite(in_fours[next]);
  for (size_t i = 4 * fours + FirstElement(); i < count; i += ElementStride()) {
    finite &= IsFinite(values[i]);
  }
  if (!finite) *mark |= 1;
}

__global__ void ToFloatsKernel(const uint8_t* __restrict__ bytes, size_t count,
                               float* __restrict__ floats) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    floats[i] = static_cast<float>(bytes[i]);
  }
}

struct alignas(4) FourBytes {
  uint8_t values[4];
};

// The same of four at a time; at last what is left over.
__global__ void ToFloatsFoursKernel(const uint8_t* __restrict__ bytes, size_t count,
                                    float* __restrict__ floats) {
  const size_t fours = count / 4;
  for (size_t i = FirstElement(); i < fours; i += ElementStride()) {
    const FourBytes from = reinterpret_cast<const FourBytes*>(bytes)[i];
    FourFloats to;
#pragma unroll
    for (int k = 0; k < 4; ++k) to.values[k] = static_cast<float>(from.values[k]);
    reinterpret_cast<FourFloats*>(floats)[i] = to;
  }
  const size_t last = 4 * fours + FirstElement();
  if (last < count) floats[last] = static_cast<float>(bytes[last]);
}

}  // namespace

void CheckKernelsLoad() {
  cudaFuncAttributes attributes = {};
  Check(cudaFuncGetAttributes(&attributes, ToFloatsKernel), "cudaFuncGetAttributes");
}

void Add(cudaStream_t stream, const float* part, size_t count, float* sum) {
  ApplyTwo(stream, AddPart(), count, part, sum, sum);
}

void AddUp(cudaStream_t stream, const std::vector<const float*>& parts, size_t count, float* sum) {
  SumParts all;
  all.count = parts.size();
  for (size_t i = 0; i < parts.size(); ++i) all.part[i] = parts[i];
  LaunchFor(stream, count, SumKernel, all, count, sum);
}

void MarkNotFinite(cudaStream_t stream, const float* values, size_t count, uint64_t* mark) {
  if (count == 0) return;
  const size_t fours = AlignedForFours(values) ? count / 4 : 0;
  const unsigned blocks = std::min(BlocksFor(fours > 0 ? fours : count), kMostLookingBlocks);
  Launch(stream, blocks, kThreads, MarkNotFiniteKernel, values, fours, count, mark);
}

void Divide(cudaStream_t stream, float by, size_t count, float* values) {
  Apply(stream, DivideBy{by}, count, values, values);
}

void ToFloats(cudaStream_t stream, const uint8_t* bytes, size_t count, float* floats) {
  const bool aligned = reinterpret_cast<uintptr_t>(bytes) % sizeof(FourBytes) == 0;
  if (!aligned || !AlignedForFours(floats)) {
    return LaunchFor(stream, count, ToFloatsKernel, bytes, count, floats);
  }
  if (count > 0) {
    Launch(stream, BlocksFor(count / 4), kThreads, ToFloatsFoursKernel, bytes, count, floats);
  }
}

// Small variables share launches. A large one fills the GPU by itself, and beside it each small one
// would have as many blocks.
void AddRegularizers(cudaStream_t stream, const std::vector<Regularized>& variables) {
  RegularizedVariables small;
  unsigned number = 0;
  unsigned blocks = 0;  // Of each.
  const auto launch_small = [&] {
    if (number > 0) Launch(stream, dim3(blocks, number), kThreads, RegularizersKernel, small);
    number = blocks = 0;
  };
  for (const Regularized& variable : variables) {
    const unsigned needed = BlocksFor(variable.count / 4);
    if (needed > kMostBlocks / kMostTogether) {
      ApplyTwo(stream, WithRegularizer{variable.l1, variable.twice_l2}, variable.count,
               variable.values, variable.gradient, variable.gradient);
      continue;
    }
    small.of[number++] = variable;
    blocks = std::max(blocks, needed);
    if (number == kMostTogether) launch_small();
  }
  launch_small();
}

}  // namespace millrace::cuda
