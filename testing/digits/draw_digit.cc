#include "testing/digits/draw_digit.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "testing/digits/strokes.h"

namespace millrace::testing {
namespace {

constexpr double kDigitPixels = 22;  // The side of the unit square on the picture.

// How strong the distortions are. They were chosen so that models come out far apart: with 6000
// digits to learn from, Keras's softmax regression (Adam, 30 epochs) gets 86.5% of 1000 others
// right, the small convolutional network of examples/digits.textproto (5 epochs) 99%.
constexpr double kMaxRotation = 0.28;  // Radians.
constexpr double kMaxShear = 0.32;
constexpr double kMinScale = 0.72;
constexpr double kMaxScale = 1.08;
constexpr double kMaxShiftPixels = 2.3;
constexpr double kMaxWobble = 0.035;  // In units of the square.
constexpr double kMaxPointShift = 0.012;
constexpr double kMinHalfWidthPixels = 0.7;
constexpr double kMaxHalfWidthPixels = 1.6;
constexpr double kMinBlurPixels = 0.5;
constexpr double kMaxBlurPixels = 1.1;
constexpr double kNoise = 0.06;  // Standard deviation, of full ink.

// A smooth, slight bending of the plane: a wave in a random direction for each coordinate.
class Wobble {
 public:
  explicit Wobble(Random* random) {
    for (Wave& wave : waves_) {
      const double direction = random->Uniform(0, 2 * std::numbers::pi);
      const double frequency = random->Uniform(3, 8);  // Radians over the square.
      wave = {frequency * std::cos(direction), frequency * std::sin(direction),
              random->Uniform(0, 2 * std::numbers::pi), random->Uniform(-kMaxWobble, kMaxWobble)};
    }
  }

  Point operator()(Point p) const { return {p.x + waves_[0].At(p), p.y + waves_[1].At(p)}; }

 private:
  struct Wave {
    double x = 0;
    double y = 0;
    double phase = 0;
    double amplitude = 0;

    double At(Point p) const { return amplitude * std::sin(x * p.x + y * p.y + phase); }
  };

  std::array<Wave, 2> waves_;
};

// From the unit square to pixels: shear, scale, turn and shift about the centre.
class Affine {
 public:
  explicit Affine(Random* random) {
    const double angle = random->Uniform(-kMaxRotation, kMaxRotation);
    const double shear = random->Uniform(-kMaxShear, kMaxShear);
    const double scale_x = kDigitPixels * random->Uniform(kMinScale, kMaxScale);
    const double scale_y = kDigitPixels * random->Uniform(kMinScale, kMaxScale);
    xx_ = scale_x * std::cos(angle);
    xy_ = scale_x * shear * std::cos(angle) - scale_y * std::sin(angle);
    yx_ = scale_x * std::sin(angle);
    yy_ = scale_x * shear * std::sin(angle) + scale_y * std::cos(angle);
    shift_x_ = kDigitSide / 2.0 + random->Uniform(-kMaxShiftPixels, kMaxShiftPixels);
    shift_y_ = kDigitSide / 2.0 + random->Uniform(-kMaxShiftPixels, kMaxShiftPixels);
  }

  Point operator()(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    return {xx_ * x + xy_ * y + shift_x_, yx_ * x + yy_ * y + shift_y_};
  }

 private:
  double xx_, xy_, yx_, yy_, shift_x_, shift_y_;
};

struct Pen {
  double half_width = 0;  // In pixels.
  double blur = 0;        // Over how many pixels the edge fades.
  double darkness = 0;    // Of 255.
};

Pen RandomPen(Random* random) {
  return {random->Uniform(kMinHalfWidthPixels, kMaxHalfWidthPixels),
          random->Uniform(kMinBlurPixels, kMaxBlurPixels), random->Uniform(0.75, 1.0)};
}

double DistanceToSegment(Point p, Point a, Point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double length_squared = dx * dx + dy * dy;
  const double along =
      length_squared == 0
          ? 0
          : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length_squared, 0.0, 1.0);
  return std::hypot(p.x - (a.x + along * dx), p.y - (a.y + along * dy));
}

using Ink = std::array<double, kDigitSide * kDigitSide>;  // 0 to 1.

void DrawSegment(Point a, Point b, const Pen& pen, Ink* ink) {
  const double reach = pen.half_width + pen.blur;
  const auto pixel = [](double x) {
    return static_cast<int>(std::clamp(x, 0.0, static_cast<double>(kDigitSide)));
  };
  for (int row = pixel(std::min(a.y, b.y) - reach); row < pixel(std::max(a.y, b.y) + reach + 1);
       ++row) {
    for (int column = pixel(std::min(a.x, b.x) - reach);
         column < pixel(std::max(a.x, b.x) + reach + 1); ++column) {
      const double distance = DistanceToSegment({column + 0.5, row + 0.5}, a, b);
      const double cover = std::clamp((reach - distance) / (2 * pen.blur), 0.0, 1.0);
      double& value = (*ink)[row * kDigitSide + column];
      value = std::max(value, pen.darkness * cover);
    }
  }
}

DigitImage Develop(const Ink& ink, Random* random) {
  DigitImage image;
  for (size_t i = 0; i < ink.size(); ++i) {
    const double value = ink[i] + kNoise * random->Normal();
    image[i] = static_cast<uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
  }
  return image;
}

}  // namespace

DigitImage DrawDigit(int digit, Random* random) {
  const std::vector<Style>& styles = StylesOf(digit);
  const Style& style = styles[random->Below(styles.size())];
  const Wobble wobble(random);
  const Affine affine(random);
  const Pen pen = RandomPen(random);
  Ink ink = {};
  for (const Stroke& stroke : style) {
    Stroke drawn;
    for (const Point& point : stroke) {
      const Point shaken = {point.x + random->Uniform(-kMaxPointShift, kMaxPointShift),
                            point.y + random->Uniform(-kMaxPointShift, kMaxPointShift)};
      drawn.push_back(affine(wobble(shaken)));
    }
    for (size_t i = 1; i < drawn.size(); ++i) DrawSegment(drawn[i - 1], drawn[i], pen, &ink);
  }
  return Develop(ink, random);
}

}  // namespace millrace::testing
