// libpng's simplified interface, which reports errors by return values.
#include <png.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/input/images/decode_image.h"

namespace millrace::worker {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kLengthBytes = 4;
constexpr size_t kTypeBytes = 4;
constexpr size_t kChecksumBytes = 4;

// As a header (decode_image.h), a chunk's length is only a claim. But libpng takes that much memory
// for most chunks before it reads them, and its simplified interface only warns of lengths above
// its limit. What comes from the first IDAT on is read in small parts.
absl::Status CheckChunks(absl::Span<const uint8_t> bytes) {
  bytes.remove_prefix(kSignatureBytes);
  while (bytes.size() >= kLengthBytes + kTypeBytes) {
    const uint64_t length = png_get_uint_32(bytes.data());
    const absl::string_view type(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                                 kTypeBytes);
    if (type == "IDAT") break;
    bytes.remove_prefix(kLengthBytes + kTypeBytes);
    if (length + kChecksumBytes > bytes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a PNG file that cannot be decoded: its chunk '", PrintableName(type),
                       "' says that it has ", length, " bytes and a checksum where the file has ",
                       bytes.size(), " bytes more"));
    }
    bytes.remove_prefix(length + kChecksumBytes);
  }
  return absl::OkStatus();
}

class PngDecoder {
 public:
  explicit PngDecoder(absl::Span<const uint8_t> bytes) : bytes_(bytes) {
    info_.version = PNG_IMAGE_VERSION;
  }
  ~PngDecoder() { png_image_free(&info_); }

  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  absl::StatusOr<Image> Decode() {
    MILLRACE_RETURN_IF_ERROR(CheckChunks(bytes_));
    if (png_image_begin_read_from_memory(&info_, bytes_.data(), bytes_.size()) == 0) {
      return Damaged();
    }
    MILLRACE_RETURN_IF_ERROR(CheckImageSize(info_.height, info_.width, bytes_.size()));
    info_.format = PNG_FORMAT_RGB;
    info_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    Image image;
    image.height = info_.height;
    image.width = info_.width;
    image.channels = 3;
    image.pixels.resize(image.height * image.width * image.channels);
    constexpr png_color kBlack = {0, 0, 0};
    const bool read = png_image_finish_read(&info_, &kBlack, image.pixels.data(), /*row_stride=*/0,
                                            /*colormap=*/nullptr) != 0;
    if (!read) return Damaged();
    return image;
  }

 private:
  absl::Status Damaged() const {
    return absl::InvalidArgumentError(
        absl::StrCat("a PNG file that cannot be decoded: ", PrintableName(info_.message)));
  }

  const absl::Span<const uint8_t> bytes_;
  png_image info_ = {};
};

// As the conversion in JPEG: 0.299, 0.587 and 0.114 times 2^16, which is their sum.
uint8_t GreyOf(const uint8_t* pixel) {
  return static_cast<uint8_t>((19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + 32768) >>
                              16);
}

void MakeGrey(Image* image) {
  const size_t count = image->height * image->width;
  for (size_t i = 0; i < count; ++i) image->pixels[i] = GreyOf(&image->pixels[3 * i]);
  image->pixels.resize(count);
  image->channels = 1;
}

}  // namespace

absl::StatusOr<Image> DecodePng(absl::Span<const uint8_t> bytes, bool grey) {
  absl::StatusOr<Image> image = PngDecoder(bytes).Decode();
  if (image.ok() && grey) MakeGrey(&*image);
  return image;
}

}  // namespace millrace::worker
