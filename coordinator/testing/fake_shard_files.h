// The files of a shard without variables, in a checkpoint.
#ifndef MILLRACE_COORDINATOR_TESTING_FAKE_SHARD_FILES_H_
#define MILLRACE_COORDINATOR_TESTING_FAKE_SHARD_FILES_H_

#include "absl/status/statusor.h"
#include "common/storage/durable_file.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Does what a ps server's WriteCheckpoint does, for a shard in this state. Each element is the
// number of steps that it has.
absl::StatusOr<CheckpointShard> WriteFakeShard(const WriteCheckpointRequest& request,
                                               const ShardSpec& spec, const ShardStatus& state,
                                               const FileSystemPtr& file_system = RealFileSystem());

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_FAKE_SHARD_FILES_H_
