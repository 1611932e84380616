// Pictures of another size.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_RESIZE_H_
#define MILLRACE_WORKER_INPUT_IMAGES_RESIZE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/input/images/image.h"

namespace millrace::worker {

// Bilinear, as tf.image.resize does it (half-pixel centres, not antialiased), rounded to whole
// numbers, halves up; docs/protocol.md has the formula. REQUIRES: the picture has a pixel; `out`,
// the pixels, has the size height * width * image.channels, not 0.
void ResizeBilinear(const Image& image, size_t height, size_t width, absl::Span<uint8_t> out);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IMAGES_RESIZE_H_
