// Pictures from the bytes of files.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_DECODE_IMAGE_H_
#define MILLRACE_WORKER_INPUT_IMAGES_DECODE_IMAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/input/images/image.h"

namespace millrace::worker {

// Of a picture, before it is resized.
inline constexpr uint64_t kMaxImagePixels = uint64_t{1} << 26;

// A header is only a claim. Deflate, the denser of the two formats' compressions, makes at most
// 1032 bytes of one, of 8 pixels each where a pixel has one bit: files that claim more are damaged,
// and cost no memory.
inline constexpr uint64_t kMaxPixelsPerByte = 1032 * 8;

// INVALID_ARGUMENT: a picture of `height` x `width` pixels cannot be in a file of so many bytes.
absl::Status CheckImageSize(uint64_t height, uint64_t width, uint64_t file_bytes);

// A whole JPEG or PNG file, which one is seen by its first bytes. Transparent pixels are laid over
// black. INVALID_ARGUMENT: neither of the two, damaged, or of a kind that the libraries do not read
// (JPEG: CMYK). Thread-safe.
absl::StatusOr<Image> DecodeImage(absl::Span<const uint8_t> bytes, bool grey);

// Of the two formats. REQUIRES: the first bytes are right.
absl::StatusOr<Image> DecodeJpeg(absl::Span<const uint8_t> bytes, bool grey);
absl::StatusOr<Image> DecodePng(absl::Span<const uint8_t> bytes, bool grey);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IMAGES_DECODE_IMAGE_H_
