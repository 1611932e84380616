// A set of examples that can be read in any order.
#ifndef MILLRACE_WORKER_INPUT_DATASET_H_
#define MILLRACE_WORKER_INPUT_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/job.pb.h"
#include "worker/input/batch.h"
#include "worker/input/data_directory.h"
#include "worker/input/example_spec.h"

namespace millrace::worker {

// Immutable once open, and thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Examples in the set; at least 1.
  virtual uint64_t size() const = 0;

  // What each example consists of.
  virtual const ExampleSpec& example() const = 0;

  // Computed from every label and feature: differs, as good as surely, where they do. 0: unknown.
  virtual uint64_t fingerprint() const { return 0; }

  // Replaces `batch` by the examples at `indices`, in that order. May block while it reads.
  // UNAVAILABLE: the system failed to read; INVALID_ARGUMENT: a file is not what it was when it was
  // opened. REQUIRES: each index is below size().
  virtual absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const = 0;
};

// Bytes of a set's files up to which the set is kept in memory where nothing else is said: a
// quarter of what this process may use (MemoryLimit), so that two sets leave room for the model.
uint64_t DefaultDataMemory();

// Opens and wholly checks the files of `spec`, which stand in `directory`. Blocks while it reads.
// `field` is the spec's path in the job ("data.train"), for messages.
// INVALID_ARGUMENT: a missing, truncated or corrupt file (with its name and the offset or line), a
// range that the file does not have, an empty set. UNAVAILABLE: the system failed to read a file.
// RESOURCE_EXHAUSTED: what is to be kept in memory is more than there is. CANCELLED: `directory`
// says that nobody wants them any more; what was open is closed by then.
// `data_memory`: a set whose files have more bytes stays in them, where its format can; results are
// the same.
// In the target :input.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const millrace::Dataset& spec,
                                                     const DataDirectory& directory,
                                                     const std::string& field,
                                                     uint64_t data_memory = DefaultDataMemory());

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_DATASET_H_
