// The binary versions of CIFAR-10 and CIFAR-100.
#ifndef MILLRACE_WORKER_INPUT_CIFAR_DATASET_H_
#define MILLRACE_WORKER_INPUT_CIFAR_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/example_spec.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens a set in CifarFiles: records of one label byte (CIFAR-100: two, coarse and fine) and 3,072
// pixels, the red ones row by row, then the green and the blue. Every record of `selection` is
// checked; it is kept as it is, in memory or in its file, and made into floats when it is read.
// `data_memory` as OpenDataset; at most
// `most_kept` bytes of records are kept in memory. Errors as OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCifarDataset(
    const CifarFiles& spec, const ExampleSelection& selection, const DataDirectory& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept = MostKeptBytes());

// What an example of such files is, but for how many classes there are: that only the files tell.
ExampleSpec CifarExample(const CifarFiles& spec);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CIFAR_DATASET_H_
