#include "testing/digits/strokes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "glog/logging.h"

namespace millrace::testing {
namespace {

constexpr double kSpacing = 0.08;  // Between the points of a stroke, at most.

// Adds a straight line from the last point.
void LineTo(Point to, Stroke* stroke) {
  const Point from = stroke->back();
  const int pieces = 1 + static_cast<int>(std::hypot(to.x - from.x, to.y - from.y) / kSpacing);
  for (int i = 1; i <= pieces; ++i) {
    const double t = static_cast<double>(i) / pieces;
    stroke->push_back({from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)});
  }
}

Stroke Line(std::initializer_list<Point> corners) {
  Stroke stroke = {*corners.begin()};
  for (const Point* corner = corners.begin() + 1; corner != corners.end(); ++corner) {
    LineTo(*corner, &stroke);
  }
  return stroke;
}

// A part of an ellipse. Angles in degrees: 0 is right, 90 below, 180 left, 270 above the centre.
struct Arc {
  Point centre;
  double radius_x = 0;
  double radius_y = 0;
  double from = 0;
  double to = 0;
};

Stroke ArcStroke(const Arc& arc) {
  const double length =
      std::abs(arc.to - arc.from) * std::numbers::pi / 180 * std::max(arc.radius_x, arc.radius_y);
  const int pieces = 2 + static_cast<int>(length / kSpacing);
  Stroke stroke;
  for (int i = 0; i <= pieces; ++i) {
    const double angle = (arc.from + (arc.to - arc.from) * i / pieces) * std::numbers::pi / 180;
    stroke.push_back({arc.centre.x + arc.radius_x * std::cos(angle),
                      arc.centre.y + arc.radius_y * std::sin(angle)});
  }
  return stroke;
}

// One stroke through several parts; gaps are closed by straight lines.
Stroke Join(std::initializer_list<Stroke> parts) {
  Stroke joined = *parts.begin();
  for (const Stroke* part = parts.begin() + 1; part != parts.end(); ++part) {
    LineTo(part->front(), &joined);
    joined.insert(joined.end(), part->begin() + 1, part->end());
  }
  return joined;
}

std::vector<Style> Zeros() {
  return {
      {ArcStroke({{0.5, 0.5}, 0.27, 0.4, -90, 270})},
      {ArcStroke({{0.5, 0.5}, 0.19, 0.4, -60, 300})},
      {ArcStroke({{0.5, 0.52}, 0.3, 0.36, -110, 220})},
  };
}

std::vector<Style> Ones() {
  return {
      {Line({{0.5, 0.1}, {0.5, 0.9}})},
      {Line({{0.34, 0.3}, {0.52, 0.1}, {0.52, 0.9}})},
      {Line({{0.36, 0.26}, {0.52, 0.1}, {0.52, 0.9}}), Line({{0.32, 0.9}, {0.72, 0.9}})},
  };
}

std::vector<Style> Twos() {
  return {
      {Join({ArcStroke({{0.49, 0.33}, 0.24, 0.23, 190, 395}), Line({{0.26, 0.9}, {0.78, 0.9}})})},
      {Join({ArcStroke({{0.48, 0.3}, 0.22, 0.2, 200, 400}),
             ArcStroke({{0.34, 0.8}, 0.1, 0.09, 60, 290}), Line({{0.5, 0.86}, {0.8, 0.88}})})},
      {Join({Line({{0.27, 0.14}, {0.6, 0.12}}), ArcStroke({{0.56, 0.3}, 0.2, 0.18, -80, 50}),
             Line({{0.25, 0.88}, {0.77, 0.86}})})},
  };
}

std::vector<Style> Threes() {
  return {
      {Join({ArcStroke({{0.48, 0.29}, 0.22, 0.19, 205, 440}),
             ArcStroke({{0.48, 0.69}, 0.26, 0.21, -85, 155})})},
      {Join({Line({{0.28, 0.12}, {0.7, 0.12}, {0.46, 0.44}}),
             ArcStroke({{0.47, 0.67}, 0.25, 0.23, -85, 150})})},
      {Join({ArcStroke({{0.45, 0.3}, 0.24, 0.18, 220, 450}), Line({{0.4, 0.48}, {0.45, 0.48}}),
             ArcStroke({{0.44, 0.69}, 0.28, 0.21, -90, 130})})},
  };
}

std::vector<Style> Fours() {
  return {
      {Line({{0.6, 0.1}, {0.2, 0.62}, {0.82, 0.62}}), Line({{0.62, 0.1}, {0.62, 0.9}})},
      {Line({{0.3, 0.12}, {0.26, 0.5}, {0.72, 0.5}}), Line({{0.7, 0.1}, {0.68, 0.9}})},
      {Join({ArcStroke({{0.47, 0.22}, 0.2, 0.28, 200, 60}), Line({{0.72, 0.46}})}),
       Line({{0.7, 0.14}, {0.66, 0.9}})},
  };
}

std::vector<Style> Fives() {
  return {
      {Join({Line({{0.72, 0.1}, {0.34, 0.1}, {0.3, 0.44}}),
             ArcStroke({{0.47, 0.65}, 0.26, 0.24, 235, 510})})},
      {Join({Line({{0.34, 0.12}, {0.32, 0.42}}), ArcStroke({{0.46, 0.66}, 0.24, 0.24, 245, 495})}),
       Line({{0.34, 0.12}, {0.74, 0.14}})},
      {Join({ArcStroke({{0.6, 0.3}, 0.26, 0.18, 290, 180}),
             ArcStroke({{0.46, 0.67}, 0.26, 0.22, 255, 500})})},
  };
}

std::vector<Style> Sixes() {
  return {
      {Join({Line({{0.64, 0.1}, {0.42, 0.32}}), ArcStroke({{0.5, 0.66}, 0.23, 0.24, 200, -160})})},
      {Join({ArcStroke({{0.66, 0.55}, 0.4, 0.44, 270, 180}),
             ArcStroke({{0.48, 0.68}, 0.22, 0.21, 190, -170})})},
      {Join({Line({{0.46, 0.1}, {0.32, 0.55}}), ArcStroke({{0.5, 0.72}, 0.2, 0.18, 200, -120})})},
  };
}

std::vector<Style> Sevens() {
  return {
      {Line({{0.22, 0.12}, {0.76, 0.12}, {0.42, 0.9}})},
      {Line({{0.22, 0.14}, {0.78, 0.12}, {0.44, 0.9}}), Line({{0.36, 0.5}, {0.74, 0.5}})},
      {Join({Line({{0.24, 0.26}, {0.26, 0.14}, {0.74, 0.14}}),
             ArcStroke({{0.8, 0.74}, 0.3, 0.5, 235, 165})})},
  };
}

std::vector<Style> Eights() {
  return {
      {ArcStroke({{0.5, 0.29}, 0.19, 0.19, 90, 450}),
       ArcStroke({{0.5, 0.69}, 0.24, 0.21, -90, 270})},
      {Join({ArcStroke({{0.5, 0.29}, 0.2, 0.18, -40, -250}),
             ArcStroke({{0.5, 0.69}, 0.21, 0.21, -60, 240}), Line({{0.66, 0.2}})})},
      {ArcStroke({{0.48, 0.27}, 0.15, 0.17, 60, 420}),
       ArcStroke({{0.5, 0.67}, 0.19, 0.23, -80, 280})},
  };
}

std::vector<Style> Nines() {
  return {
      {ArcStroke({{0.48, 0.32}, 0.22, 0.22, 0, -360}), Line({{0.7, 0.3}, {0.66, 0.9}})},
      {Join({ArcStroke({{0.48, 0.32}, 0.22, 0.21, 10, -350}),
             ArcStroke({{0.42, 0.56}, 0.28, 0.34, -30, 110})})},
      {Join({ArcStroke({{0.5, 0.3}, 0.2, 0.19, -30, -330}), Line({{0.7, 0.2}, {0.5, 0.9}})})},
  };
}

}  // namespace

const std::vector<Style>& StylesOf(int digit) {
  CHECK(0 <= digit && digit <= 9) << digit;
  static const auto* const styles = new std::array<std::vector<Style>, 10>{
      Zeros(), Ones(), Twos(), Threes(), Fours(), Fives(), Sixes(), Sevens(), Eights(), Nines()};
  return (*styles)[digit];
}

}  // namespace millrace::testing
