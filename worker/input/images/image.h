// A picture in memory.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_IMAGE_H_
#define MILLRACE_WORKER_INPUT_IMAGES_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::worker {

// Row-major, the channels of a pixel side by side: one, grey, or R, G and B.
struct Image {
  size_t height = 0;
  size_t width = 0;
  size_t channels = 0;
  std::vector<uint8_t> pixels;  // height * width * channels.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IMAGES_IMAGE_H_
