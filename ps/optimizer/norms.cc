#include "ps/optimizer/norms.h"

#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

MILLRACE_KERNEL void AddSquares(const char* floats, size_t count, double* lanes) {
  constexpr size_t kLanes = SquareSum::kLanes;
  double sums[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] = lanes[lane];
  const size_t whole = count / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = LoadFloat(floats, i + lane);
      sums[lane] += x * x;
    }
  }
  for (size_t i = whole; i < count; ++i) {
    const double x = LoadFloat(floats, i);
    sums[i - whole] += x * x;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = sums[lane];
}

}  // namespace

void SquareSum::Add(const char* floats, size_t count) {
  const FlushDenormals flush_denormals;
  AddSquares(floats, count, lanes_.data());
}

double SquareSum::Total() const {
  double total = 0;
  for (const double lane : lanes_) total += lane;
  return total;
}

}  // namespace millrace::ps
