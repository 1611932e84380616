// Arrays of NumPy's.
#ifndef MILLRACE_WORKER_INPUT_NUMPY_DATASET_H_
#define MILLRACE_WORKER_INPUT_NUMPY_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens a set in NumpyArrays: .npy of versions 1 to 3, in either order of elements and of bytes,
// and .npz, whose CRCs are checked. The rows of `selection` are kept as they are, in memory or
// (.npy in C's order) in their files, and converted when they are read. `data_memory` as
// OpenDataset; at most `most_kept` bytes of rows are kept in memory. Errors as OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenNumpyDataset(
    const NumpyArrays& spec, const ExampleSelection& selection, const DataDirectory& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept = MostKeptBytes());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_NUMPY_DATASET_H_
