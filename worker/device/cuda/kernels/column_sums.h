// Sums of the columns of a matrix: the gradients of biases, and of all that is one for each
// channel. The order of a sum depends on the matrix's size alone.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/device/cuda/descriptions.h"

namespace millrace::cuda {

// What SumColumns needs at `workspace`; of few rows nothing. It grows with both.
size_t SumColumnsWorkspaceBytes(int64_t rows, int64_t columns);

// sums[j] = the sum of column j of a row-major matrix [rows, columns]; of no rows 0. Enqueued.
// `sums` may not be in the matrix.
void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const float* matrix,
                void* workspace, float* sums);

// The gradient by what a layer's function takes, made of that by what it gives, `dy`.
struct InnerGradient {
  Function function = Function::kLinear;  // Up to kElu.
  const float* y = nullptr;               // What it gave; not read if it is linear.
  float* dy = nullptr;                    // The inner gradient takes its place,
  // unless this is not null: then it goes here in bfloat16, and `dy` may have been overwritten.
  void* rounded = nullptr;
};

// The same of an inner gradient, which is made, and rounded, on the way: ReLU's by the kernel that
// sums, which so reads each value once.
void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const InnerGradient& gradient,
                void* workspace, float* sums);

// The same of y and dy in bfloat16.
struct NarrowInnerGradient {
  Function function = Function::kLinear;  // Or kRelu.
  const void* y = nullptr;                // As InnerGradient's.
  void* dy = nullptr;                     // The inner gradient takes its place.
};
void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns,
                const NarrowInnerGradient& gradient, void* workspace, float* sums);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_
