// A shard on another server, as it is read from there.
#ifndef MILLRACE_PS_STORE_SHARD_SOURCE_H_
#define MILLRACE_PS_STORE_SHARD_SOURCE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/parameter_server.pb.h"

namespace millrace::ps {

// Read once, from its beginning to its end. Calls block; statuses as documented for CopyShard.
class ShardSource {
 public:
  virtual ~ShardSource() = default;

  // What it is, without its values.
  virtual absl::StatusOr<ShardSnapshot> Open() = 0;
  // The next array, of so many values. DATA_LOSS: another one came, or a damaged one.
  virtual absl::Status ReadArray(absl::Span<float> values) = 0;
  // After the last array. OK: what was read is what the shard is, and still has.
  virtual absl::Status Close() = 0;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_SHARD_SOURCE_H_
