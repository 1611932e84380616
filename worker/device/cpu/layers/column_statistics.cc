#include "worker/device/cpu/layers/column_statistics.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/kernel_clones.h"
#include "glog/logging.h"
#include "worker/device/cpu/openmp.h"

namespace millrace::worker {
namespace {

// As many sums as stay in registers and do not wait for each other.
constexpr size_t kWide = 64;
constexpr size_t kNarrow = 16;
constexpr size_t kNarrowest = 4;
// That are added up in float32.
constexpr size_t kRowsOfSum = 32;
// A block is read twice, and is to stay in a cache in between.
constexpr size_t kElementsOfBlock = 64 << 10;
constexpr size_t kLeastRowsOfBlock = 128;
constexpr size_t kMostRowsOfBlock = 512;

// Adds kColumns columns of a matrix with `stride` columns to `totals`; with kSquares, squared
// distances from `means`.
template <size_t kColumns, bool kSquares>
[[gnu::always_inline]] inline void AddBand(const float* matrix, size_t rows, size_t stride,
                                           const float* means, double* totals) {
  for (size_t left = rows; left > 0;) {
    float band[kColumns] = {};
    const size_t end = left - std::min(left, kRowsOfSum);
    for (; left > end; --left, matrix += stride) {
      for (size_t i = 0; i < kColumns; ++i) {
        const float value = kSquares ? matrix[i] - means[i] : matrix[i];
        band[i] += kSquares ? value * value : value;
      }
    }
    for (size_t i = 0; i < kColumns; ++i) totals[i] += band[i];
  }
}

template <bool kSquares>
[[gnu::always_inline]] inline void AddColumns(const float* matrix, size_t rows, size_t columns,
                                              size_t stride, const float* means, double* totals) {
  size_t begin = 0;
  for (; begin + kWide <= columns; begin += kWide) {
    AddBand<kWide, kSquares>(matrix + begin, rows, stride, means + begin, totals + begin);
  }
  for (; begin + kNarrow <= columns; begin += kNarrow) {
    AddBand<kNarrow, kSquares>(matrix + begin, rows, stride, means + begin, totals + begin);
  }
  for (; begin + kNarrowest <= columns; begin += kNarrowest) {
    AddBand<kNarrowest, kSquares>(matrix + begin, rows, stride, means + begin, totals + begin);
  }
  for (; begin < columns; ++begin) {
    AddBand<1, kSquares>(matrix + begin, rows, stride, means + begin, totals + begin);
  }
}

MILLRACE_KERNEL void AddValues(const float* matrix, size_t rows, size_t columns, double* totals) {
  AddColumns<false>(matrix, rows, columns, columns, /*means=*/matrix, totals);  // Not looked at.
}

MILLRACE_KERNEL void AddSquares(const float* matrix, size_t rows, size_t columns, size_t stride,
                                const float* means, double* totals) {
  AddColumns<true>(matrix, rows, columns, stride, means, totals);
}

// The blocks of a matrix, which threads take one after the other.
class RowBlocks {
 public:
  RowBlocks(const float* matrix, size_t rows, size_t columns)
      : matrix_(matrix),
        rows_(rows),
        columns_(columns),
        block_rows_(std::clamp(kElementsOfBlock / columns, kLeastRowsOfBlock, kMostRowsOfBlock)) {
    // So many rows stand side by side that few columns fill a band.
    while (folds_ * columns_ < kWide) folds_ *= 2;
  }

  size_t count() const { return (rows_ + block_rows_ - 1) / block_rows_; }
  size_t RowsOf(size_t block) const { return std::min(block_rows_, rows_ - block * block_rows_); }

  // `results` has 2 * columns numbers for each block.
  void Compute(double* results) {
    results_ = results;
    if (count() == 1) return Work();
    // Each thread's first and last look at `next_` come after this one and before the other one,
    // also for tools that do not know the team's own barriers.
    next_ = 0;
    GOMP_parallel([](void* blocks) { static_cast<RowBlocks*>(blocks)->Work(); }, this,
                  /*threads=*/0,
                  /*flags=*/0);
    CHECK_GE(next_.load(), count());
  }

 private:
  void Work() {
    const size_t blocks = count();
    for (size_t block; (block = next_++) < blocks;) {
      ComputeBlock(matrix_ + block * block_rows_ * columns_, RowsOf(block),
                   results_ + block * 2 * columns_);
    }
  }

  void ComputeBlock(const float* values, size_t rows, double* means) const {
    double* const squares = means + columns_;
    std::fill(means, means + 2 * columns_, 0.0);
    AddRows(values, rows, nullptr, means);
    for (size_t i = 0; i < columns_; ++i) means[i] /= static_cast<double>(rows);
    AddRows(values, rows, means, squares);
  }

  // Adds up values, or squared distances from `means`.
  void AddRows(const float* values, size_t rows, const double* means, double* totals) const {
    const size_t folded = folds_ == 1 ? 0 : rows / folds_ * folds_;
    if (folded > 0) {
      double sides[2 * kWide] = {};
      AddBands(values, folded / folds_, folds_ * columns_, means, sides);
      for (size_t i = 0; i < folds_ * columns_; ++i) totals[i % columns_] += sides[i];
    }
    if (folded < rows) AddBands(values + folded * columns_, rows - folded, columns_, means, totals);
  }

  // Of a matrix whose columns are those of the whole one, once or some times over.
  void AddBands(const float* values, size_t rows, size_t columns, const double* means,
                double* totals) const {
    if (means == nullptr) return AddValues(values, rows, columns, totals);
    float centers[kWide];
    for (size_t begin = 0; begin < columns; begin += kWide) {
      const size_t width = std::min(kWide, columns - begin);
      size_t column = begin % columns_;
      for (size_t i = 0; i < width; ++i) {
        centers[i] = static_cast<float>(means[column]);
        if (++column == columns_) column = 0;
      }
      AddSquares(values + begin, rows, width, columns, centers, totals + begin);
    }
  }

  const float* const matrix_;
  const size_t rows_;
  const size_t columns_;
  const size_t block_rows_;
  size_t folds_ = 1;
  double* results_ = nullptr;
  std::atomic<size_t> next_{0};
};

}  // namespace

size_t ColumnStatistics::SizeFor(size_t rows, size_t columns) {
  return (RowBlocks(nullptr, rows, columns).count() + 1) * 2 * columns;
}

void ColumnStatistics::Reserve(size_t rows, size_t columns) {
  of_blocks_.reserve(SizeFor(rows, columns));
}

// Sums of blocks are put together as in Chan, Golub and LeVeque, "Updating formulae and a pairwise
// algorithm for computing sample variances" (1979).
void ColumnStatistics::Compute(const float* matrix, size_t rows, size_t columns, float* means,
                               float* variances) {
  RowBlocks blocks(matrix, rows, columns);
  of_blocks_.resize(SizeFor(rows, columns));
  blocks.Compute(of_blocks_.data());
  double* const totals = of_blocks_.data() + blocks.count() * 2 * columns;
  double* const squares = totals + columns;
  std::fill(totals, totals + 2 * columns, 0.0);
  const double* of_block = of_blocks_.data();
  for (size_t block = 0; block < blocks.count(); ++block, of_block += 2 * columns) {
    const double weight = static_cast<double>(blocks.RowsOf(block)) / static_cast<double>(rows);
    for (size_t i = 0; i < columns; ++i) totals[i] += weight * of_block[i];
  }
  of_block = of_blocks_.data();
  for (size_t block = 0; block < blocks.count(); ++block, of_block += 2 * columns) {
    const double block_rows = static_cast<double>(blocks.RowsOf(block));
    for (size_t i = 0; i < columns; ++i) {
      const double distance = of_block[i] - totals[i];
      squares[i] += of_block[columns + i] + block_rows * distance * distance;
    }
  }
  for (size_t i = 0; i < columns; ++i) {
    means[i] = static_cast<float>(totals[i]);
    variances[i] = static_cast<float>(squares[i] / static_cast<double>(rows));
  }
}

}  // namespace millrace::worker
