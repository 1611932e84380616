// Which files an image folder has.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_LIST_IMAGES_H_
#define MILLRACE_WORKER_INPUT_IMAGES_LIST_IMAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/input/data_directory.h"

namespace millrace::worker {

struct ImageFile {
  std::string name;  // Below the folder: "cat/0001.jpg".
  int32_t label = 0;
};

struct ImageFiles {
  std::vector<std::string> classes;  // Names, sorted as bytes.
  std::vector<ImageFile> files;      // By class, then by name, sorted as bytes.
};

// All files in the sub-folders of `folder`. `field` is the field of the job that names it.
// Blocks while it reads. INVALID_ARGUMENT: no such folder, no class or no file in it, or something
// in a class's folder that is no file. UNAVAILABLE: the system failed to read.
// CANCELLED: nobody wants them any more.
absl::StatusOr<ImageFiles> ListImages(const DataDirectory& folder, const std::string& field);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IMAGES_LIST_IMAGES_H_
