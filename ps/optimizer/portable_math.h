// Functions whose results are the same bits on every processor. Those of the C library are not: it
// rounds as it likes, and picks another implementation where there are fused operations.
//
// They are made of operations that are correctly rounded everywhere (see kernel.h). Their errors
// are below 1e-15 of the result (Log), 1e-15 (CosPi), and 1e-13 of the result (Pow, where that fits
// a float32).
#ifndef MILLRACE_PS_OPTIMIZER_PORTABLE_MATH_H_
#define MILLRACE_PS_OPTIMIZER_PORTABLE_MATH_H_

#include <cstdint>

namespace millrace::ps {

// base^exponent, by squaring.
double Power(double base, uint64_t exponent);

// base^exponent. REQUIRES: base >= 0 or NaN; exponent >= 0 and finite, if base is 0 or infinite.
double Pow(double base, double exponent);

// REQUIRES: x > 0 and finite.
double Log(double x);

// cos(pi * x). REQUIRES: 0 <= x <= 1.
double CosPi(double x);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_PORTABLE_MATH_H_
