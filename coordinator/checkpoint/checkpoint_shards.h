#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_SHARDS_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_SHARDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// The shards of a job, as a checkpoint needs them.
class CheckpointShards {
 public:
  virtual ~CheckpointShards() = default;

  // Has all shards write at once (the job and the shard are filled in); `on_end` is called on some
  // thread when TakeWritten has the answer, and must not block. When one has failed the others are
  // cancelled. REQUIRES: nothing is being written.
  virtual void StartWrite(const WriteCheckpointRequest& request, std::function<void()> on_end) = 0;
  // Nothing: it is still under way, or there is none.
  virtual absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> TakeWritten() = 0;
  // Ends it: there is none afterwards.
  virtual void CancelWrite() = 0;
  // Who has not written yet, for people: "ps-1". "": there is nobody.
  virtual std::string WhoWrites() const = 0;
  // The same for the shards of one server, and no others.
  virtual std::string ServerOf(uint32_t shard) const = 0;
  virtual absl::Status UnpinCut(uint64_t generation, const std::string& cut_id) = 0;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_SHARDS_H_
