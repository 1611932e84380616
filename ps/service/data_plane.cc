#include "ps/service/data_plane.h"

#include <memory>

#include "ps/service/pull_stream.h"
#include "ps/service/push_stream.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kSweepPeriod = absl::Seconds(1);

}  // namespace

DataPlane::DataPlane(const ShardMap* shards, Clock* clock)
    : shards_(shards), clock_(clock), deadlines_(clock) {
  SweepAt(clock_->Now());
}

void DataPlane::SweepAt(absl::Time when) {
  deadlines_.Add(when, [this] { Sweep(); });
}

void DataPlane::Sweep() {
  const absl::Time now = clock_->Now();
  for (const std::shared_ptr<Shard>& shard : shards_->List()) shard->Tick(now);
  trimmer_.Look(now);
  SweepAt(now + kSweepPeriod);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataPlane::Push(
    grpc::CallbackServerContext* /*context*/) {
  return ServerStream::Start(std::make_shared<PushStream>(++last_stream_id_, shards_), &streams_);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataPlane::Pull(
    grpc::CallbackServerContext* context) {
  return ServerStream::Start(std::make_shared<PullStream>(context, shards_, &deadlines_, clock_),
                             &streams_);
}

}  // namespace millrace::ps
