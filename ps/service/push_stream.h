// One ParameterServer.Push stream.
#ifndef MILLRACE_PS_SERVICE_PUSH_STREAM_H_
#define MILLRACE_PS_SERVICE_PUSH_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "common/mutex.h"
#include "common/net/server_stream.h"
#include "protos/parameter_server.pb.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_map.h"

namespace millrace::ps {

// Gives each message to its shard, on the thread that gRPC reads it on, and sends the answers.
class PushStream final : public ServerStream {
 public:
  // `id`: no other stream's. `shards` must outlive it.
  PushStream(uint64_t id, const ShardMap* shards) : id_(id), shards_(shards) {}

 private:
  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnLastMessage() override;
  void OnEnded() override;

  void Deliver(DecodedPush push);
  // Pushes of this stream that are not complete can no longer become so.
  void LeaveShards();
  // A push that was complete, or refused, has its answer.
  void Answer(const PushResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);
  void Answered() ABSL_LOCKS_EXCLUDED(mutex_);

  const uint64_t id_;
  const ShardMap* const shards_;
  // Those that got messages. Only reactions use it, one after the other.
  absl::flat_hash_map<Shard*, std::weak_ptr<Shard>> touched_;

  Mutex mutex_;
  uint64_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool last_message_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_PUSH_STREAM_H_
