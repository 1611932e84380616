#include "testing/cuda_emulation/product.h"

#include <bit>
#include <cmath>
#include <vector>

namespace cuda_emulation {
namespace {

// To the nearest, of equals the even one.
float KeepBits(float value, int dropped) {
  if (!std::isfinite(value)) return value;
  uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t odd = (bits >> dropped) & 1;
  bits += (uint32_t{1} << (dropped - 1)) - 1 + odd;
  bits &= ~((uint32_t{1} << dropped) - 1);
  return std::bit_cast<float>(bits);
}

float Rounded(float value, Precision precision) {
  switch (precision) {
    case Precision::kFloat:
      return value;
    case Precision::kTf32:
      return KeepBits(value, 13);
    case Precision::kBfloat16:
      return KeepBits(value, 16);
  }
  return value;
}

float Get(const void* data, bool bfloat16, int64_t at) {
  if (!bfloat16) return static_cast<const float*>(data)[at];
  return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[at]} << 16);
}

void Put(void* data, bool bfloat16, int64_t at, float value) {
  if (!bfloat16) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<uint16_t*>(data)[at] =
        static_cast<uint16_t>(std::bit_cast<uint32_t>(KeepBits(value, 16)) >> 16);
  }
}

// Row-major, without gaps.
std::vector<float> Packed(const Matrix& matrix, size_t rows, size_t columns, Precision precision) {
  std::vector<float> packed(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const int64_t at = static_cast<int64_t>(i) * matrix.row_stride +
                         static_cast<int64_t>(j) * matrix.column_stride;
      packed[i * columns + j] = Rounded(Get(matrix.data, matrix.bfloat16, at), precision);
    }
  }
  return packed;
}

void FinishElement(const Product& product, size_t row, size_t column, double sum) {
  const auto place = [&](const Matrix& matrix) {
    return static_cast<int64_t>(row) * matrix.row_stride +
           static_cast<int64_t>(column) * matrix.column_stride;
  };
  double value = double{product.alpha} * sum;
  if (product.beta != 0) {
    value += double{product.beta} * Get(product.c.data, product.c.bfloat16, place(product.c));
  }
  if (product.bias != nullptr) {
    value += Get(product.bias, product.d.bfloat16, static_cast<int64_t>(row));
  }
  if (product.relu && (value < 0 || (std::isnan(value) && !product.relu_keeps_nan))) value = 0;
  Put(product.d.data, product.d.bfloat16, place(product.d), static_cast<float>(value));
}

}  // namespace

void Compute(const Product& product) {
  const size_t inner = product.inner, columns = product.columns;
  const std::vector<float> a = Packed(product.a, product.rows, inner, product.precision);
  const std::vector<float> b = Packed(product.b, inner, columns, product.precision);
  std::vector<double> sums(columns);
  for (size_t i = 0; i < product.rows; ++i) {
    sums.assign(columns, 0);
    for (size_t k = 0; k < inner; ++k) {
      const double factor = a[i * inner + k];
      const float* row = b.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) sums[j] += factor * row[j];
    }
    for (size_t j = 0; j < columns; ++j) FinishElement(product, i, j, sums[j]);
  }
}

}  // namespace cuda_emulation
