// One picture of a handwritten-like digit.
#ifndef MILLRACE_TESTING_DIGITS_DRAW_DIGIT_H_
#define MILLRACE_TESTING_DIGITS_DRAW_DIGIT_H_

#include <array>
#include <cstdint>

#include "testing/digits/random.h"

namespace millrace::testing {

inline constexpr int kDigitSide = 28;

// Row by row, 0 for paper and 255 for ink.
using DigitImage = std::array<uint8_t, kDigitSide * kDigitSide>;

// Draws `digit` in a random style, turned, sheared, scaled, moved, bent, and with a random pen.
// A linear model cannot undo these; a small convolutional network learns to.
// REQUIRES: digit is 0 to 9.
DigitImage DrawDigit(int digit, Random* random);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_DIGITS_DRAW_DIGIT_H_
