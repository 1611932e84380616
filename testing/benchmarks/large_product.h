// One large product of matrices by cuBLASLt itself: what a GPU can do, to compare steps with.
#ifndef MILLRACE_TESTING_BENCHMARKS_LARGE_PRODUCT_H_
#define MILLRACE_TESTING_BENCHMARKS_LARGE_PRODUCT_H_

#include <cstdint>
#include <string>

namespace millrace::testing {

// What its factors and its result have in memory. Sums are float32's in any case.
enum class ProductTypes { kFloat32, kTf32, kBfloat16, kBfloat16ToBfloat16 };

// Which factors of c = a b, row-major, stand there transposed: a layer's forward pass has neither,
// the gradient of its kernel a, that of its input b.
struct Transposed {
  bool a = false;
  bool b = false;
};

// Operations a second of size x size by size x size random numbers, with the fastest of the
// algorithms that cuBLASLt suggests: the median of `rounds`, by the GPU's clock. Nothing is
// converted meanwhile: factors of bfloat16 are that before. Stops the process where a call fails.
double LargeProductRate(ProductTypes types, Transposed transposed, int64_t size, int rounds);

// "cuBLASLt 13.1.0".
std::string CublasLtName();

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_LARGE_PRODUCT_H_
