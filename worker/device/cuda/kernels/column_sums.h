// Sums of the columns of a matrix: the gradients of biases, and of all that is one for each
// channel.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace millrace::cuda {

// What SumColumns needs at `workspace`; of few rows nothing. It grows with both.
size_t SumColumnsWorkspaceBytes(int64_t rows, int64_t columns);

// sums[j] = the sum of column j of a row-major matrix [rows, columns]; of no rows 0. Enqueued. The
// order of a sum depends on the matrix's size alone. `sums` may not be in the matrix.
void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const float* matrix,
                void* workspace, float* sums);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_SUMS_H_
