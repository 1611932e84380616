// MNIST's file format.
#ifndef MILLRACE_WORKER_INPUT_IDX_DATASET_H_
#define MILLRACE_WORKER_INPUT_IDX_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens a set in IdxFiles: images as unsigned bytes with a big-endian header (0x00000803, count,
// rows, columns), labels likewise (0x00000801, count). Both files are read to their ends and
// checked; the examples of `selection` are kept, a byte for each pixel: at most `most_kept` bytes.
// Errors as OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenIdxDataset(const IdxFiles& files,
                                                        const ExampleSelection& selection,
                                                        const DataDirectory& directory,
                                                        const std::string& field,
                                                        uint64_t most_kept = MostKeptBytes());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IDX_DATASET_H_
