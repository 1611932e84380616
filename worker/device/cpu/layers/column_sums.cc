#include "worker/device/cpu/layers/column_sums.h"

#include "common/kernel_clones.h"

namespace millrace::worker {
namespace {

// As many columns as stay in a register.
constexpr size_t kRegister = 16;

template <size_t kColumns>
[[gnu::always_inline]] inline void SumBand(const float* matrix, size_t rows, size_t columns,
                                           float* sums) {
  float band[kColumns] = {};
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < kColumns; ++i) band[i] += matrix[row * columns + i];
  }
  for (size_t i = 0; i < kColumns; ++i) sums[i] = band[i];
}

MILLRACE_KERNEL void SumAllColumns(const float* matrix, size_t rows, size_t columns, float* sums) {
  size_t begin = 0;
  for (; begin + kRegister <= columns; begin += kRegister) {
    SumBand<kRegister>(matrix + begin, rows, columns, sums + begin);
  }
  for (; begin < columns; ++begin) SumBand<1>(matrix + begin, rows, columns, sums + begin);
}

}  // namespace

void SumColumns(const float* matrix, size_t rows, size_t columns, float* sums) {
  SumAllColumns(matrix, rows, columns, sums);
}

}  // namespace millrace::worker
