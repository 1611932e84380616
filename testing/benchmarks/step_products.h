// The products of matrices of a step of examples/wide_mlp.textproto, as the CUDA device's dense
// layers ask cuBLASLt for them: by the first algorithm that it suggests, which is the one they
// take, and by the fastest of those that they may take.
#ifndef MILLRACE_TESTING_BENCHMARKS_STEP_PRODUCTS_H_
#define MILLRACE_TESTING_BENCHMARKS_STEP_PRODUCTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/device/cuda/descriptions.h"

namespace millrace::testing {

struct MeasuredProduct {
  std::string name;  // "dense 2, kernel": of which layer, and what it gives.
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  bool transposed_a = false;
  bool transposed_b = false;
  bool narrow_result = false;  // In bfloat16.
  std::string epilogue;        // What cuBLASLt does to the result: "", "bias" or "bias, relu".
  std::string first, fastest;  // Algorithms; the same where none is faster.
  int algorithms = 0;          // How many were measured.
  double first_seconds = 0;
  double fastest_seconds = 0;

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(inner) *
           static_cast<double>(columns);
  }
};

// In the order of a step: forwards, then backwards. Nobody asks for the gradient by the pictures,
// so there are eight. `width`: of the hidden layers, 4,096 in the example. Factors have the
// precision's type before; sums have one order. Medians of `rounds`, by the host's clock, of many
// in a row. Throws cuda::Error.
std::vector<MeasuredProduct> MeasureStepProducts(cuda::Precision precision, int64_t examples,
                                                 int64_t width, int rounds);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_STEP_PRODUCTS_H_
