#include "worker/input/images/resize.h"

#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/input/images/image_test_util.h"

namespace millrace::worker {
namespace {

std::vector<uint8_t> ReadBytes(std::istream& from, size_t count) {
  std::vector<uint8_t> bytes;
  for (unsigned byte; bytes.size() < count && from >> byte;) {
    bytes.push_back(static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(bytes.size(), count);
  return bytes;
}

// The table is made by testing/reference/resize.py with TensorFlow 2.21.
TEST(ResizeTest, GivesWhatTensorFlowGives) {
  std::ifstream table("testing/reference/resize.txt");
  Image image;
  size_t height;
  size_t width;
  int cases = 0;
  while (table >> image.height >> image.width >> image.channels >> height >> width) {
    SCOPED_TRACE(++cases);
    image.pixels = ReadBytes(table, image.height * image.width * image.channels);
    const std::vector<uint8_t> wanted = ReadBytes(table, height * width * image.channels);
    std::vector<uint8_t> resized(wanted.size());
    ResizeBilinear(image, height, width, absl::MakeSpan(resized));
    EXPECT_EQ(resized, wanted);
  }
  EXPECT_EQ(cases, 7);
}

TEST(ResizeTest, SameSizeChangesNothing) {
  const Image image = millrace::testing::TestImage(11, 6, 3);
  std::vector<uint8_t> resized(image.pixels.size());
  ResizeBilinear(image, 11, 6, absl::MakeSpan(resized));
  EXPECT_EQ(resized, image.pixels);
}

// Pixels are sought with floats, which count no further than 2^24.
TEST(ResizeTest, LongPicturesStayWithinTheirRows) {
  for (const size_t width : {size_t{1} << 20, (size_t{1} << 24) + 3}) {
    const Image image{1, width, 1, std::vector<uint8_t>(width, 7)};
    std::vector<uint8_t> resized(4096);
    ResizeBilinear(image, 1, 4096, absl::MakeSpan(resized));
    EXPECT_EQ(resized, std::vector<uint8_t>(4096, 7));
  }
}

}  // namespace
}  // namespace millrace::worker
