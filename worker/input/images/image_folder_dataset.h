// Folders of JPEG and PNG files, kept as bytes.
#ifndef MILLRACE_WORKER_INPUT_IMAGES_IMAGE_FOLDER_DATASET_H_
#define MILLRACE_WORKER_INPUT_IMAGES_IMAGE_FOLDER_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/data.pb.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens the examples of a selection in an ImageFolder. All files are decoded and resized, on
// several threads; of what is selected, height * width * channels bytes are kept for each. The log
// says which classes there are, and as a warning how many files were skipped. All files' pictures
// are in memory until the selected ones are known: no more than `most_kept` bytes. Where that has
// no room for a second copy of these, the memory of all stays taken. Errors as OpenDataset, with
// the file's path.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFolder(const ImageFolder& spec,
                                                         const ExampleSelection& selection,
                                                         const DataDirectory& directory,
                                                         const std::string& field,
                                                         uint64_t most_kept = MostKeptBytes());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IMAGES_IMAGE_FOLDER_DATASET_H_
