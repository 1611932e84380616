// LIBSVM's text format, kept sparse.
#ifndef MILLRACE_WORKER_INPUT_LIBSVM_DATASET_H_
#define MILLRACE_WORKER_INPUT_LIBSVM_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens a set in a LibsvmFile (which may be gzip-compressed as well). The file is read to its end
// and checked; the examples of `selection` are kept, eight bytes for each value in it: at most
// `most_kept` bytes. Errors as OpenDataset, with FILE:LINE:COLUMN.
absl::StatusOr<std::unique_ptr<Dataset>> OpenLibsvmDataset(const LibsvmFile& spec,
                                                           const ExampleSelection& selection,
                                                           const DataDirectory& directory,
                                                           const std::string& field,
                                                           uint64_t most_kept = MostKeptBytes());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_LIBSVM_DATASET_H_
