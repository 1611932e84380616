// Reads checkpoints. Nothing in their files is believed before its checksum is compared.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/storage/durable_file.h"
#include "protos/checkpoint.pb.h"

namespace millrace {

// An open checkpoint: all of its manifest and records are read and checked, its values are not.
// Not thread-safe (open it once for each thread); calls block on the disk. Memory: the records, and
// one array of a block. Messages name the file, and the byte where it can be told.
class Checkpoint {
 public:
  struct Variable {
    std::string name;
    std::vector<uint64_t> shape;
    uint64_t elements = 0;
  };

  // `number` 0: the newest that has a manifest. NOT_FOUND: there is none; DATA_LOSS: it is damaged;
  // FAILED_PRECONDITION: of a newer format; UNAVAILABLE: it cannot be read now.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const FileSystemPtr& file_system,
                                                          const std::string& directory,
                                                          uint64_t number);
  ~Checkpoint();

  const CheckpointManifest& manifest() const;
  // Those of the job's plan, in its order.
  const std::vector<Variable>& variables() const;
  // Index in variables().
  absl::optional<size_t> Find(absl::string_view name) const;
  // Of each element: 1 for its value, and one for each of manifest().slots.
  int arrays() const;

  // Elements [begin, begin + values.size()) of a variable's array (0: values; 1 and more: slots),
  // row-major, checked. Cheapest in order. OUT_OF_RANGE: no such elements; DATA_LOSS; UNAVAILABLE.
  absl::Status Read(size_t variable, int array, uint64_t begin, absl::Span<float> values);

  // Which of manifest().shards have elements of [begin, begin + count): indices, growing, each
  // once. OUT_OF_RANGE.
  absl::StatusOr<std::vector<uint32_t>> ShardsOf(size_t variable, uint64_t begin,
                                                 uint64_t count) const;

  class Impl;  // Of this library.

 private:
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The newest checkpoint before `number` that can be taken for it: it led up to it, it opens, and
// refers to no file that `damage` names, a message that says what is damaged. Nothing: there is
// none, or the directory cannot be read now.
absl::optional<CheckpointManifest> FindOneBefore(const FileSystemPtr& file_system,
                                                 const std::string& directory, uint64_t number,
                                                 absl::string_view damage);

// Bytes [begin, end) of a file are not those that were written.
struct CheckpointProblem {
  std::string path;  // Below the directory.
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string what;  // Names all of that: a whole message.
};

struct VerifyResult {
  uint64_t number = 0;  // Of the checkpoint.
  uint64_t bytes = 0;   // That were read, and compared.
  uint64_t problems = 0;
};

// Reads every byte of a checkpoint, and of those before it what it refers to; tells each damaged
// place. Goes on after one. NOT_FOUND: there is no such checkpoint; UNAVAILABLE: some file cannot
// be read now; an error of `on_read` (called after so many bytes; may be null) ends it.
absl::StatusOr<VerifyResult> VerifyCheckpoint(
    const FileSystemPtr& file_system, const std::string& directory, uint64_t number,
    const std::function<void(const CheckpointProblem&)>& on_problem,
    const std::function<absl::Status(uint64_t bytes)>& on_read = nullptr);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_READER_H_
