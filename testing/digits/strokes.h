// How people write the digits: a few styles of each, as pen strokes.
#ifndef MILLRACE_TESTING_DIGITS_STROKES_H_
#define MILLRACE_TESTING_DIGITS_STROKES_H_

#include <vector>

namespace millrace::testing {

struct Point {
  double x = 0;
  double y = 0;
};

// A line through its points, without lifting the pen. Dense enough that bending it keeps it smooth.
using Stroke = std::vector<Point>;

// A digit stands in the unit square, y downwards, about 0.8 high.
using Style = std::vector<Stroke>;

// REQUIRES: digit is 0 to 9.
const std::vector<Style>& StylesOf(int digit);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_DIGITS_STROKES_H_
