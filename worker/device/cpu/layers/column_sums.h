#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_COLUMN_SUMS_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_COLUMN_SUMS_H_

#include <cstddef>

namespace millrace::worker {

// sums[j] = the sum of column j of a row-major matrix, added up row by row.
void SumColumns(const float* matrix, size_t rows, size_t columns, float* sums);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_COLUMN_SUMS_H_
