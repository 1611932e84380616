// Each function brings its argument near 0 in a step that is exact, or nearly so, and adds up a
// power series there, the smallest terms first.
#include "ps/optimizer/portable_math.h"

#include <cmath>
#include <limits>

namespace millrace::ps {
namespace {

constexpr double kPi = 3.14159265358979323846;
// ln 2 in two parts: the first has so few bits that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kSqrtHalf = 0.70710678118654752440;

// 1 + x (1 + x/2 (1 + x/3 (...))). REQUIRES: |x| <= ln 2 / 2.
double ExpNearZero(double x) {
  double sum = 1;
  for (int i = 16; i >= 1; --i) sum = 1 + x / i * sum;
  return sum;
}

// e^x.
double Exp(double x) {
  constexpr double kLargest = 709;  // Beyond, and below the negative, the result is past float32's.
  if (x > kLargest) return std::numeric_limits<double>::infinity();
  if (x < -kLargest) return 0;
  const double twos = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double rest = x - twos * kLn2High - twos * kLn2Low;
  return std::ldexp(ExpNearZero(rest), static_cast<int>(twos));
}

// 1 - x^2/2 (1 - x^2/12 (...)). REQUIRES: |x| <= pi / 4.
double CosNearZero(double x) {
  double sum = 1;
  for (int i = 17; i >= 1; i -= 2) sum = 1 - x * x / (i * (i + 1)) * sum;
  return sum;
}

// REQUIRES: |x| <= pi / 4.
double SinNearZero(double x) {
  double sum = 1;
  for (int i = 18; i >= 2; i -= 2) sum = 1 - x * x / (i * (i + 1)) * sum;
  return x * sum;
}

}  // namespace

double Power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// ln m = 2 atanh((m - 1) / (m + 1)), with m between sqrt(1/2) and sqrt(2).
double Log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int i = 25; i >= 1; i -= 2) sum = sum * (s * s) + 1.0 / i;
  return exponent * kLn2High + (exponent * kLn2Low + 2 * s * sum);
}

double Pow(double base, double exponent) {
  if (exponent == 0) return 1;
  if (std::isnan(base) || base == 0 || std::isinf(base)) return base;
  return Exp(exponent * Log(base));
}

double CosPi(double x) {
  if (x > 0.5) return -CosPi(1 - x);
  return x <= 0.25 ? CosNearZero(kPi * x) : SinNearZero(kPi * (0.5 - x));
}

}  // namespace millrace::ps
