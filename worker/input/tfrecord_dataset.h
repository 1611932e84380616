// TFRecord files of tf.train.Example.
#ifndef MILLRACE_WORKER_INPUT_TFRECORD_DATASET_H_
#define MILLRACE_WORKER_INPUT_TFRECORD_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {

// Opens a set in TfRecordFiles, plain or gzip-compressed. All checksums are checked and the records
// of `selection` parsed; they are kept as they are, in memory or (not compressed) in their files,
// and parsed again when they are read. `data_memory` as OpenDataset; at
// most `most_kept` bytes of records are kept in memory. Errors as OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(
    const TfRecordFiles& spec, const ExampleSelection& selection, const DataDirectory& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept = MostKeptBytes());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_TFRECORD_DATASET_H_
