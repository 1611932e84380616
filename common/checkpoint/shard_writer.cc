#include "common/checkpoint/shard_writer.h"

namespace millrace {
absl::StatusOr<CheckpointShard> WriteShard(const ShardWriteOptions&, const ShardImage&,
                                           BlockSource*) {
  return absl::UnimplementedError("not yet");
}
}  // namespace millrace
