// Writes what checkpoints have of a server's shards.
#ifndef MILLRACE_PS_CHECKPOINT_CHECKPOINT_WRITER_H_
#define MILLRACE_PS_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/storage/durable_file.h"
#include "protos/parameter_server.pb.h"
#include "ps/checkpoint/bandwidth.h"
#include "ps/checkpoint/state_source.h"
#include "ps/dense/shard_plan.h"

namespace millrace::ps {

struct CheckpointWriterOptions {
  FileSystemPtr file_system = RealFileSystem();
  Clock* clock = Clock::Real();  // Must outlive the writer.
  // Of all shards together. 0: no limit.
  uint64_t bytes_per_second = 0;
};

// Each call writes on its caller's thread. Thread-safe.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(const CheckpointWriterOptions& options);

  // While this is held, nobody else writes a checkpoint of the shard.
  using Turn = std::shared_ptr<const void>;
  // ALREADY_EXISTS: somebody does. The writer must outlive what is returned.
  absl::StatusOr<Turn> Begin(const ShardSpec& spec) ABSL_LOCKS_EXCLUDED(mutex_);

  // INVALID_ARGUMENT: a field of the request makes no sense.
  static absl::Status CheckRequest(const WriteCheckpointRequest& request);

  // Writes the shard's files of the checkpoint that the request names. Statuses as for WriteShard
  // and of `may_go_on`. REQUIRES: a turn of the shard is held; CheckRequest.
  absl::StatusOr<WriteCheckpointResponse> Write(const ShardPlan& plan,
                                                const WriteCheckpointRequest& request,
                                                StateSource* source, const MayGoOn& may_go_on);

 private:
  using Key = std::pair<std::string, uint32_t>;

  const FileSystemPtr file_system_;
  Bandwidth bandwidth_;
  Mutex mutex_;
  absl::flat_hash_set<Key> busy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CHECKPOINT_CHECKPOINT_WRITER_H_
