// Pictures as files, for tests.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_IMAGE_TEST_UTIL_H_
#define MILLRACE_WORKER_INPUT_IMAGES_IMAGE_TEST_UTIL_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "worker/input/images/image.h"

namespace millrace::testing {

// Each value a function of its place.
worker::Image TestImage(size_t height, size_t width, size_t channels);

std::string Jpeg(const worker::Image& image, bool progressive = false);
std::string Png(const worker::Image& image);

inline absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace millrace::testing

#endif  // MILLRACE_WORKER_INPUT_IMAGES_IMAGE_TEST_UTIL_H_
