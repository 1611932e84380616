#include "worker/input/images/decode_image.h"

#include <cstdlib>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/images/image_test_util.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::BigEndian32;
using ::millrace::testing::Bytes;
using ::millrace::testing::Jpeg;
using ::millrace::testing::Png;
using ::millrace::testing::TestImage;
using ::testing::HasSubstr;

Image Decode(const std::string& file, bool grey = false) {
  return DecodeImage(Bytes(file), grey).value();
}

std::string DecodeError(const std::string& file) {
  const absl::Status status = DecodeImage(Bytes(file), /*grey=*/false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

void ExpectNear(const Image& image, const Image& wanted, int tolerance) {
  ASSERT_EQ(image.height, wanted.height);
  ASSERT_EQ(image.width, wanted.width);
  ASSERT_EQ(image.channels, wanted.channels);
  for (size_t i = 0; i < wanted.pixels.size(); ++i) {
    EXPECT_LE(std::abs(image.pixels[i] - wanted.pixels[i]), tolerance) << i;
  }
}

Image GreyTestImage() {
  Image image = TestImage(9, 5, 3);
  Image grey{9, 5, 1, {}};
  for (size_t i = 0; i < 45; ++i) {
    const uint8_t* pixel = &image.pixels[3 * i];
    grey.pixels.push_back(
        static_cast<uint8_t>(0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2] + 0.5));
  }
  return grey;
}

TEST(DecodeImageTest, PngGivesThePixelsThatWentIn) {
  const Image image = TestImage(9, 5, 3);
  ExpectNear(Decode(Png(image)), image, 0);
  ExpectNear(Decode(Png(image), /*grey=*/true), GreyTestImage(), 0);
}

TEST(DecodeImageTest, GreyPngBecomesThreeEqualChannelsOrOne) {
  const Image image = TestImage(4, 3, 1);
  ExpectNear(Decode(Png(image), /*grey=*/true), image, 0);
  const Image colours = Decode(Png(image));
  ASSERT_EQ(colours.channels, 3u);
  for (size_t i = 0; i < colours.pixels.size(); ++i) {
    EXPECT_EQ(colours.pixels[i], image.pixels[i / 3]);
  }
}

TEST(DecodeImageTest, JpegGivesNearlyThePixelsThatWentIn) {
  const Image image = TestImage(9, 5, 3);
  for (const bool progressive : {false, true}) {
    ExpectNear(Decode(Jpeg(image, progressive)), image, 12);
    ExpectNear(Decode(Jpeg(image, progressive), /*grey=*/true), GreyTestImage(), 4);
  }
  ExpectNear(Decode(Jpeg(TestImage(4, 3, 1)), /*grey=*/true), TestImage(4, 3, 1), 4);
}

TEST(DecodeImageTest, FormatIsSeenByTheContent) {
  EXPECT_EQ(DecodeError(""), "is neither a JPEG nor a PNG file");
  EXPECT_EQ(DecodeError("GIF89a"), "is neither a JPEG nor a PNG file");
}

TEST(DecodeImageTest, TruncatedFilesAreRefused) {
  const std::string png = Png(TestImage(30, 30, 3));
  EXPECT_THAT(DecodeError(png.substr(0, png.size() / 2)), HasSubstr("a PNG file that cannot be"));
  for (const bool progressive : {false, true}) {
    const std::string jpeg = Jpeg(TestImage(30, 30, 3), progressive);
    EXPECT_THAT(DecodeError(jpeg.substr(0, jpeg.size() - 12)),
                HasSubstr("a JPEG file that cannot be decoded: Premature end of JPEG file"));
  }
}

TEST(DecodeImageTest, HeaderThatClaimsMuchCostsNothing) {
  std::string png = Png(TestImage(1, 1, 3));
  // The width and height stand behind the signature, the chunk's length and its type.
  png.replace(16, 8, BigEndian32(60000) + BigEndian32(1000));
  std::string jpeg = Jpeg(TestImage(1, 1, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\x7f\xff\x07\xff");
  for (const std::string& file : {png, jpeg}) {
    EXPECT_THAT(DecodeError(file),
                ::testing::AnyOf(HasSubstr("says that it is a picture of"), HasSubstr("CRC")));
  }
  EXPECT_FALSE(CheckImageSize(1 << 14, 1 << 13, uint64_t{1} << 40).ok());
  EXPECT_FALSE(CheckImageSize(0, 1, 100).ok());
  EXPECT_FALSE(CheckImageSize(1000, 1000, 100).ok());
  EXPECT_TRUE(CheckImageSize(1 << 13, 1 << 13, uint64_t{1} << 20).ok());
}

TEST(DecodeImageTest, PngChunkThatClaimsMoreThanTheFileHasIsRefused) {
  const std::string png = Png(TestImage(1, 1, 3));
  // Behind the signature and the first chunk, whose 13 bytes have 12 around them.
  std::string claims_much = png;
  claims_much.insert(33, BigEndian32(0x3b000006) + "sPLT");
  EXPECT_THAT(DecodeError(claims_much),
              HasSubstr("its chunk 'sPLT' says that it has 989855750 bytes "
                        "and a checksum where the file has"));
  std::string has_all = png;
  has_all.insert(33, BigEndian32(4) + "teSt" + "abcd" + BigEndian32(0xde380d1a));
  ExpectNear(Decode(has_all), TestImage(1, 1, 3), 0);
}

TEST(DecodeImageTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20240823;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string files[] = {Png(TestImage(8, 9, 3)), Jpeg(TestImage(8, 9, 3)),
                               Jpeg(TestImage(17, 9, 3), /*progressive=*/true),
                               Png(TestImage(5, 5, 1)), Jpeg(TestImage(5, 5, 1))};
  for (int i = 0; i < 10'000; ++i) {
    const std::string file = millrace::testing::Mutate(files[i % 5], &random);
    const auto image = DecodeImage(Bytes(file), /*grey=*/i % 2 == 0);
    if (!image.ok()) {
      EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << image.status();
      continue;
    }
    EXPECT_EQ(image->pixels.size(), image->height * image->width * image->channels);
  }
}

}  // namespace
}  // namespace millrace::worker
