#include "worker/input/images/decode_image.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::worker {
namespace {

constexpr uint8_t kJpegStart[] = {0xff, 0xd8, 0xff};
constexpr uint8_t kPngStart[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool BeginsWith(absl::Span<const uint8_t> bytes, absl::Span<const uint8_t> start) {
  return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
}

}  // namespace

absl::Status CheckImageSize(uint64_t height, uint64_t width, uint64_t file_bytes) {
  // Both formats have at most 31 bits for a side.
  const bool possible = height >= 1 && width >= 1 && height <= kMaxImagePixels / width &&
                        height * width / kMaxPixelsPerByte <= file_bytes;
  if (possible) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("says that it is a picture of ", height, "x", width, " pixels in ", file_bytes,
                   " bytes; must have 1 to ", kMaxImagePixels, " pixels, and at most ",
                   kMaxPixelsPerByte, " for each byte"));
}

absl::StatusOr<Image> DecodeImage(absl::Span<const uint8_t> bytes, bool grey) {
  if (BeginsWith(bytes, kJpegStart)) return DecodeJpeg(bytes, grey);
  if (BeginsWith(bytes, kPngStart)) return DecodePng(bytes, grey);
  return absl::InvalidArgumentError("is neither a JPEG nor a PNG file");
}

}  // namespace millrace::worker
