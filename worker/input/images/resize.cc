#include "worker/input/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace millrace::worker {
namespace {

// The two pixels of a row or column between which one of the result is.
struct Between {
  size_t lower = 0;
  size_t upper = 0;
  float weight = 0;  // Of the upper one.
};

std::vector<Between> PlacesOf(size_t from, size_t to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Between> places(to);
  for (size_t i = 0; i < to; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) * scale - 0.5f;
    const float below = std::floor(at);
    places[i].lower = static_cast<size_t>(std::max(below, 0.0f));
    places[i].upper = std::min(static_cast<size_t>(std::max(std::ceil(at), 0.0f)), from - 1);
    places[i].lower = std::min(places[i].lower, from - 1);
    places[i].weight = at - below;
  }
  return places;
}

float Mix(float lower, float upper, float weight) { return lower + (upper - lower) * weight; }

}  // namespace

void ResizeBilinear(const Image& image, size_t height, size_t width, absl::Span<uint8_t> out) {
  const std::vector<Between> rows = PlacesOf(image.height, height);
  const std::vector<Between> columns = PlacesOf(image.width, width);
  const size_t channels = image.channels;
  const auto pixel = [&](size_t row, size_t column) {
    return &image.pixels[(row * image.width + column) * channels];
  };
  size_t next = 0;
  for (const Between& y : rows) {
    for (const Between& x : columns) {
      for (size_t c = 0; c < channels; ++c) {
        const float top = Mix(pixel(y.lower, x.lower)[c], pixel(y.lower, x.upper)[c], x.weight);
        const float bottom = Mix(pixel(y.upper, x.lower)[c], pixel(y.upper, x.upper)[c], x.weight);
        out[next++] = static_cast<uint8_t>(std::floor(Mix(top, bottom, y.weight) + 0.5f));
      }
    }
  }
}

}  // namespace millrace::worker
