#include "ps/service/data_plane.h"

#include <memory>

#include "ps/service/pull_stream.h"
#include "ps/service/push_stream.h"

namespace millrace::ps {

DataPlane::DataPlane(const ShardMap* shards, Clock* clock)
    : shards_(shards), clock_(clock), deadlines_(clock) {}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataPlane::Push(
    grpc::CallbackServerContext* /*context*/) {
  return Stream::Start(std::make_shared<PushStream>(++last_stream_id_, shards_), &streams_);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataPlane::Pull(
    grpc::CallbackServerContext* /*context*/) {
  return Stream::Start(std::make_shared<PullStream>(shards_, &deadlines_, clock_), &streams_);
}

}  // namespace millrace::ps
