#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_COLUMN_STATISTICS_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_COLUMN_STATISTICS_H_

#include <cstddef>
#include <vector>

namespace millrace::worker {

// Means and variances of the columns of matrices. A few dozen rows are added up in float32, and
// these sums in float64: they are as exact of millions of rows as of a few. Uses the calling
// thread's team; the bits are the same with any number of threads. Used by one thread at a time.
class ColumnStatistics {
 public:
  // Of a row-major matrix: means[j] = sum over i of x[i][j] / rows, variances[j] = sum over i of
  // (x[i][j] - means[j])^2 / rows. REQUIRES: a row or more.
  void Compute(const float* matrix, size_t rows, size_t columns, float* means, float* variances);

  // For matrices of so many rows at most: Compute allocates nothing then.
  void Reserve(size_t rows, size_t columns);

 private:
  // Of `of_blocks_`.
  static size_t SizeFor(size_t rows, size_t columns);

  // Of each block its columns' means, and then their sums of squared distances from these; then the
  // same of all.
  std::vector<double> of_blocks_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_COLUMN_STATISTICS_H_
