// Reads many pictures at once, on several threads.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_IMAGE_LOADER_H_
#define MILLRACE_WORKER_INPUT_IMAGES_IMAGE_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/start_thread.h"
#include "worker/input/data_directory.h"
#include "worker/input/images/list_images.h"

namespace millrace::worker {

struct ImageSize {
  size_t height = 0;
  size_t width = 0;
  size_t channels = 0;

  size_t bytes() const { return height * width * channels; }
};

// What became of the files, in their order.
struct LoadedImages {
  std::vector<uint8_t> pixels;         // ImageSize::bytes() for each file.
  std::vector<absl::Status> statuses;  // INVALID_ARGUMENT: no picture, or a damaged one.
};

inline constexpr size_t kMaxImageFileBytes = size_t{1} << 28;
inline constexpr size_t kMaxImageThreads = 8;

// Decodes and resizes the files below `folder`, and returns when all are done. `field` is the field
// of the job that names it. One thread for each of the machine's, up to kMaxImageThreads, or as
// many as the system has left beside the caller's; what comes out does not depend on how many there
// are. Throws std::bad_alloc as others do, but for what a single file needs: that is
// RESOURCE_EXHAUSTED in its status. UNAVAILABLE there: the system failed to read it. CANCELLED:
// nobody wants it any more.
LoadedImages LoadImages(const DataDirectory& folder, const std::vector<ImageFile>& files,
                        const ImageSize& size, const std::string& field,
                        const ThreadStarter& start_thread = StartThread);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IMAGES_IMAGE_LOADER_H_
