// A product of matrices, computed plainly.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_PRODUCT_H_
#define MILLRACE_TESTING_CUDA_EMULATION_PRODUCT_H_

#include <cstddef>
#include <cstdint>

namespace cuda_emulation {

// What is read of an input's float.
enum class Precision { kFloat, kTf32, kBfloat16 };

// Element (i, j) stands at data[i * row_stride + j * column_stride].
struct Matrix {
  void* data = nullptr;
  bool bfloat16 = false;  // Otherwise float.
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// d = f(alpha * a b + beta * c + bias): a is [rows, inner], b [inner, columns].
struct Product {
  size_t rows = 0;
  size_t inner = 0;
  size_t columns = 0;
  Matrix a, b, c, d;
  float alpha = 1;
  float beta = 0;              // 0: c is not read.
  const void* bias = nullptr;  // [rows], of d's type; null: none.
  bool relu = false;
  bool relu_keeps_nan = true;  // Otherwise it makes 0 of it.
  Precision precision = Precision::kFloat;
};

// Sums are in double precision, and rounded once.
void Compute(const Product& product);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_PRODUCT_H_
