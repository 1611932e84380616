#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "testing/digits/random.h"
#include "testing/example_data/example_data.h"
#include "testing/example_data/write_file.h"

namespace millrace::testing {
namespace {

constexpr int kPicturesOfAShape = 250;
constexpr int kLeastSide = 24;
constexpr int kMostSide = 48;

using Colour = std::array<double, 3>;

// Whether a shape of radius 1 about the origin covers a point.
using Covers = bool (*)(double x, double y);

bool Circle(double x, double y) { return x * x + y * y <= 1; }

bool Cross(double x, double y) {
  const double near = std::min(std::abs(x), std::abs(y));
  return near <= 0.3 && std::max(std::abs(x), std::abs(y)) <= 1;
}

bool Square(double x, double y) { return std::max(std::abs(x), std::abs(y)) <= 0.85; }

bool Triangle(double x, double y) { return y <= 0.7 && std::abs(x) <= (y + 1) / 1.7; }

struct RgbPicture {
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;  // Row by row; red, green, blue.
};

Colour AnyColour(Random* random) {
  return {random->Uniform(0, 255), random->Uniform(0, 255), random->Uniform(0, 255)};
}

double Distance(const Colour& a, const Colour& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

int AnySide(Random* random) {
  return kLeastSide + static_cast<int>(random->Below(kMostSide - kLeastSide + 1));
}

uint8_t Noisy(double value, Random* random) {
  return static_cast<uint8_t>(std::clamp(value + 8 * random->Normal(), 0.0, 255.0));
}

RgbPicture DrawShape(Covers covers, Random* random) {
  RgbPicture picture = {AnySide(random), AnySide(random), {}};
  const Colour paper = AnyColour(random);
  Colour ink = AnyColour(random);
  while (Distance(paper, ink) < 200) ink = AnyColour(random);
  const double side = std::min(picture.height, picture.width);
  const double radius = side * random->Uniform(0.22, 0.42);
  const double centre_x = random->Uniform(radius, picture.width - radius);
  const double centre_y = random->Uniform(radius, picture.height - radius);
  const double angle = random->Uniform(-0.3, 0.3);
  for (int row = 0; row < picture.height; ++row) {
    for (int column = 0; column < picture.width; ++column) {
      const double x = (column + 0.5 - centre_x) / radius;
      const double y = (row + 0.5 - centre_y) / radius;
      const bool covered = covers(x * std::cos(angle) + y * std::sin(angle),
                                  y * std::cos(angle) - x * std::sin(angle));
      for (const double value : covered ? ink : paper) {
        picture.pixels.push_back(Noisy(value, random));
      }
    }
  }
  return picture;
}

absl::Status WritePng(const std::string& path, const RgbPicture& picture) {
  png_image info = {};
  info.version = PNG_IMAGE_VERSION;
  info.height = static_cast<png_uint_32>(picture.height);
  info.width = static_cast<png_uint_32>(picture.width);
  info.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(info), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&info, bytes.data(), &size, /*convert_to_8_bit=*/0,
                                picture.pixels.data(), /*row_stride=*/0, nullptr) == 0) {
    return absl::InternalError(absl::StrCat(path, ": ", info.message));
  }
  bytes.resize(size);
  return WriteBytes(path, bytes);
}

}  // namespace

absl::Status WriteShapes(const std::string& directory, uint64_t seed) {
  constexpr std::pair<const char*, Covers> kShapes[] = {
      {"circle", Circle}, {"cross", Cross}, {"square", Square}, {"triangle", Triangle}};
  Random random(seed);
  for (const auto& [name, covers] : kShapes) {
    const std::string folder = absl::StrCat(directory, "/train/", name);
    MILLRACE_RETURN_IF_ERROR(MakeFolder(folder));
    for (int i = 0; i < kPicturesOfAShape; ++i) {
      const std::string path = absl::StrFormat("%s/%04d.png", folder, i);
      MILLRACE_RETURN_IF_ERROR(WritePng(path, DrawShape(covers, &random)));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::testing
