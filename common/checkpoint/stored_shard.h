// Where in which files the arrays of a shard are, for those who read them.
#ifndef MILLRACE_COMMON_CHECKPOINT_STORED_SHARD_H_
#define MILLRACE_COMMON_CHECKPOINT_STORED_SHARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/durable_file.h"
#include "protos/checkpoint.pb.h"

namespace millrace {

// The float32 elements of an array of a block.
struct StoredElements {
  uint32_t file = 0;    // Index in StoredShard.files.
  uint64_t offset = 0;  // Of the first byte in the file.
  std::string checksum;
};

struct StoredShard {
  struct Block {
    std::string variable;
    uint64_t offset = 0;  // Of the first element in the variable.
    uint32_t elements = 0;
    std::vector<StoredElements> arrays;
  };
  std::vector<std::string> files;  // Below the directory.
  std::vector<Block> blocks;
};

// Is told of damage; an error ends the work with it.
using ProblemSink = std::function<absl::Status(const CheckpointProblem&)>;
// Is told how many bytes were read and compared; an error ends the work with it. May be null.
using ReadHook = std::function<absl::Status(uint64_t bytes)>;

// Reads the record of a shard and the headers of the files that it names. Blocks that are in
// damaged files only are left out, if the sink lets it go on. UNAVAILABLE; errors of the sink and
// the hook.
absl::StatusOr<StoredShard> ReadStoredShard(const FileSystemPtr& file_system,
                                            const std::string& directory,
                                            const CheckpointManifest& manifest, uint32_t shard,
                                            const ProblemSink& sink, const ReadHook& on_read);

// Whether the file is there, as long as the record says, with the header that it says. Reads no
// value. DATA_LOSS: it is not; UNAVAILABLE.
absl::Status CheckValueFile(const FileSystemPtr& file_system, const std::string& directory,
                            const ValueFile& file);

// Reads and compares the elements; `target` must be as long. Damage is told to the sink, and
// what `target` is then is undefined.
absl::Status ReadElements(const RandomAccessReader& file, const std::string& name,
                          const StoredShard::Block& block, int array, absl::Span<float> target,
                          const ProblemSink& sink);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_STORED_SHARD_H_
