// A set whose pictures are shifted and scaled.
#ifndef MILLRACE_WORKER_INPUT_NORMALIZED_DATASET_H_
#define MILLRACE_WORKER_INPUT_NORMALIZED_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "protos/images.pb.h"
#include "worker/input/dataset.h"

namespace millrace::worker {

// `dataset` with the Normalization of each value; `field` is the set's ("data.train").
// INVALID_ARGUMENT: examples are no pictures of floats, or have another number of channels.
absl::StatusOr<std::unique_ptr<Dataset>> Normalize(std::unique_ptr<Dataset> dataset,
                                                   const Normalization& spec,
                                                   const std::string& field);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_NORMALIZED_DATASET_H_
