// Writes what a checkpoint has of one shard: a file of values and a record.
#ifndef MILLRACE_COMMON_CHECKPOINT_SHARD_WRITER_H_
#define MILLRACE_COMMON_CHECKPOINT_SHARD_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/storage/durable_file.h"
#include "protos/parameter_server.pb.h"

namespace millrace {

// What is written. Array 0 of a block is its values, those after it are its slots.
struct ShardImage {
  struct Slice {
    std::string variable;
    std::vector<uint64_t> shape;  // Of the variable. Empty: not known.
    uint64_t offset = 0;          // Of the slice's first element in the variable.
  };
  struct Block {
    uint32_t slice = 0;
    uint64_t offset = 0;    // In elements, from the slice's first.
    uint32_t elements = 0;  // 1 to 2^18.
  };

  std::string job_id;
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t version = 0;
  StepSet applied;
  std::vector<std::string> slots;  // Names, such as "momentum".
  std::vector<Slice> slices;
  std::vector<Block> blocks;  // In the order of the slices, one after the other in each.
};

// Where the elements come from. Called by one thread.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // The bytes (float32, little-endian) of an array of image.blocks[block]; valid until the next
  // call. An error ends the writing with it. Arrays are asked for in the order of the file: slice
  // by slice, array by array, block by block; twice, if there is a base and KnownChecksum is
  // silent.
  virtual absl::StatusOr<absl::string_view> Read(size_t block, int array) = 0;

  // Checksum() of these bytes, from when they were known to be right: what Read gives is compared
  // with it.
  virtual absl::optional<std::string> KnownChecksum(size_t /*block*/, int /*array*/) {
    return absl::nullopt;
  }
};

struct ShardWriteOptions {
  FileSystemPtr file_system = RealFileSystem();
  std::string directory;  // Of the checkpoints.
  uint64_t number = 0;    // The new one's; its folder is there.
  // A checkpoint in the directory: arrays of blocks that are the same in it are referred to instead
  // of written. 0: none; so is one that cannot be read, or is of another job or other slots.
  uint64_t base = 0;
  // As in NewFileOptions. 0 bytes now and then while nothing is written.
  std::function<absl::Status(uint64_t bytes)> before_write;
};

// When it returns OK, both files and their names are on the disk. Blocks on the disk; memory:
// NewFile::kMemoryBytes, one array of a block, and the record. After an error neither file is left,
// if the disk lets them be removed. ALREADY_EXISTS: the checkpoint has files of the shard, which
// stay; NOT_FOUND: it has no folder; UNAVAILABLE: the disk fails or is full; DATA_LOSS: the source
// is not what KnownChecksum says; INVALID_ARGUMENT: an impossible image; errors of the source and
// of before_write.
absl::StatusOr<CheckpointShard> WriteShard(const ShardWriteOptions& options,
                                           const ShardImage& image, BlockSource* source);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_SHARD_WRITER_H_
