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

namespace millrace::worker {

// Opens a set in TfRecordFiles, plain or gzip-compressed. All checksums are checked and the records
// of `selection` parsed; they are kept as they are, in memory or (not compressed) in their files,
// and parsed again when they are read. `data_memory` and errors as OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(const TfRecordFiles& spec,
                                                             const ExampleSelection& selection,
                                                             const std::string& directory,
                                                             const std::string& field,
                                                             uint64_t data_memory);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_TFRECORD_DATASET_H_
