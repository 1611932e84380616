#include <cuda_bf16.h>

#include <cmath>
#include <cstddef>

#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/narrow.h"
#include "worker/device/cuda/kernels/reduce.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

// Comparisons are such that NaN stays NaN.

struct Relu {
  MILLRACE_DEVICE float operator()(float x) const { return x < 0 ? 0 : x; }
};

struct Relu6 {
  MILLRACE_DEVICE float operator()(float x) const { return x < 0 ? 0 : x > 6 ? 6 : x; }
};
struct Relu6Gradient {
  MILLRACE_DEVICE float operator()(float y, float dy) const {
    return dy * (y > 0 && y < 6 ? 1.0f : 0.0f);
  }
};

struct Elu {
  MILLRACE_DEVICE float operator()(float x) const { return x < 0 ? expm1f(x) : x; }
};
struct EluGradient {
  MILLRACE_DEVICE float operator()(float y, float dy) const { return dy * (y < 0 ? y + 1 : 1.0f); }
};

struct Tanh {
  MILLRACE_DEVICE float operator()(float x) const { return tanhf(x); }
};
struct TanhGradient {
  MILLRACE_DEVICE float operator()(float y, float dy) const { return dy * (1 - y * y); }
};

struct Sigmoid {
  MILLRACE_DEVICE float operator()(float x) const {
    const float small = expf(-fabsf(x));
    return (x < 0 ? small : 1) / (1 + small);
  }
};
struct SigmoidGradient {
  MILLRACE_DEVICE float operator()(float y, float dy) const { return dy * y * (1 - y); }
};

// Values are taken relative to the largest of their row, so that no exponential overflows. A row
// with NaN becomes NaN, all of it.
__global__ void SoftmaxKernel(size_t rows, size_t columns, const float* x, float* y) {
  __shared__ float shared[kMostWarps];
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    float largest = -INFINITY;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, from[i]);
    largest = ReduceBlock(largest, shared, Larger());
    float sum = 0;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const float exponential = expf(from[i] - largest);
      to[i] = exponential;
      sum += exponential;
    }
    sum = ReduceBlock(sum, shared, Sum());
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) to[i] /= sum;
  }
}

// dx = y * (dy - sum(y * dy))
__global__ void SoftmaxGradientKernel(size_t rows, size_t columns, const float* y, const float* dy,
                                      float* dx) {
  __shared__ float shared[kMostWarps];
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const size_t begin = row * columns;
    float sum = 0;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) sum += y[begin + i] * dy[begin + i];
    sum = ReduceBlock(sum, shared, Sum());
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      dx[begin + i] = y[begin + i] * (dy[begin + i] - sum);
    }
  }
}

// Of eight at a time; at last what is left over. REQUIRES: both are aligned to 16 bytes.
__global__ void NarrowReluGradientKernel(const __nv_bfloat16* __restrict__ y, size_t count,
                                         __nv_bfloat16* __restrict__ dy) {
  const size_t eights = count / 8;
  for (size_t i = FirstElement(); i < eights; i += ElementStride()) {
    const EightNarrow values = reinterpret_cast<const EightNarrow*>(y)[i];
    EightNarrow gradients = reinterpret_cast<const EightNarrow*>(dy)[i];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float gradient = ToFloat(gradients.values[k]);
      Store(ReluGradient()(ToFloat(values.values[k]), gradient), gradients.values + k);
    }
    reinterpret_cast<EightNarrow*>(dy)[i] = gradients;
  }
  const size_t last = 8 * eights + FirstElement();
  if (last < count) Store(ReluGradient()(ToFloat(y[last]), ToFloat(dy[last])), dy + last);
}

}  // namespace

void ApplyNarrowReluGradient(cudaStream_t stream, size_t count, const void* y, void* dy) {
  if (count == 0) return;
  if (!AlignedForEights(y, dy)) {
    throw Error(Error::kOther, "narrow values of ReLU are not aligned to 16 bytes");
  }
  Launch(stream, BlocksFor(count / 8), kThreads, NarrowReluGradientKernel,
         static_cast<const __nv_bfloat16*>(y), count, static_cast<__nv_bfloat16*>(dy));
}

void ApplyFunction(cudaStream_t stream, Function function, int64_t rows, int64_t columns,
                   const float* x, float* y) {
  const auto row_count = static_cast<size_t>(rows);
  const auto column_count = static_cast<size_t>(columns);
  const size_t count = row_count * column_count;
  switch (function) {
    case Function::kRelu:
      return Apply(stream, Relu(), count, x, y);
    case Function::kSigmoid:
      return Apply(stream, Sigmoid(), count, x, y);
    case Function::kSoftmax:
      return LaunchForRows(stream, row_count, column_count, SoftmaxKernel, row_count, column_count,
                           x, y);
    case Function::kTanh:
      return Apply(stream, Tanh(), count, x, y);
    case Function::kRelu6:
      return Apply(stream, Relu6(), count, x, y);
    case Function::kElu:
      return Apply(stream, Elu(), count, x, y);
    default:
      return CopyFloats(stream, count, x, y);
  }
}

void ApplyGradient(cudaStream_t stream, Function function, int64_t rows, int64_t columns,
                   const float* y, const float* dy, float* dx) {
  const auto row_count = static_cast<size_t>(rows);
  const auto column_count = static_cast<size_t>(columns);
  const size_t count = row_count * column_count;
  switch (function) {
    case Function::kRelu:
      return ApplyGradient(stream, ReluGradient(), count, y, dy, dx);
    case Function::kSigmoid:
      return ApplyGradient(stream, SigmoidGradient(), count, y, dy, dx);
    case Function::kSoftmax:
      return LaunchForRows(stream, row_count, column_count, SoftmaxGradientKernel, row_count,
                           column_count, y, dy, dx);
    case Function::kTanh:
      return ApplyGradient(stream, TanhGradient(), count, y, dy, dx);
    case Function::kRelu6:
      return ApplyGradient(stream, Relu6Gradient(), count, y, dy, dx);
    case Function::kElu:
      return ApplyGradient(stream, EluGradient(), count, y, dy, dx);
    default:
      return CopyFloats(stream, count, dy, dx);
  }
}

}  // namespace millrace::cuda
