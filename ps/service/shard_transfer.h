// How a shard goes from one ps server to another: ParameterServerAdmin.ReadShard, both ends.
#ifndef MILLRACE_PS_SERVICE_SHARD_TRANSFER_H_
#define MILLRACE_PS_SERVICE_SHARD_TRANSFER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "protos/parameter_server.pb.h"
#include "ps/shard/shard.h"
#include "ps/store/shard_source.h"

namespace millrace::ps {

// Writes the shard, as ReadShard documents it, with `write`, which blocks, and returns false when
// nobody reads any more (CANCELLED). What the shard does meanwhile changes nothing of what is sent.
absl::Status SendShard(const Shard& shard, uint64_t generation,
                       const std::function<bool(const ReadShardResponse&)>& write);

// Reads the shard from the server that `request` names, for `timeout` at most. Connects with Open.
std::unique_ptr<ShardSource> ReadFromServer(const CopyShardRequest& request,
                                            absl::Duration timeout);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_SHARD_TRANSFER_H_
