#include "ps/service/data_plane.h"

#include <memory>

#include "ps/service/pull_stream.h"
#include "ps/service/push_stream.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kSweepPeriod = absl::Seconds(1);

}  // namespace

DataPlane::DataPlane(ShardStore* store, Clock* clock)
    : store_(store), clock_(clock), deadlines_(clock) {
  SweepAt(clock_->Now());
}

void DataPlane::SweepAt(absl::Time when) {
  deadlines_.Add(when, [this] { Sweep(); });
}

void DataPlane::Sweep() {
  const absl::Time now = clock_->Now();
  for (const std::shared_ptr<Shard>& shard : store_->shards().List()) shard->Tick(now);
  store_->GiveBackSurplus();
  trimmer_.Look(now);
  SweepAt(now + kSweepPeriod);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataPlane::Push(
    grpc::CallbackServerContext* /*context*/) {
  return ServerStream::Start(std::make_shared<PushStream>(++last_stream_id_, &store_->shards()),
                             &streams_);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* DataPlane::Pull(
    grpc::CallbackServerContext* context) {
  return ServerStream::Start(
      std::make_shared<PullStream>(context, &store_->shards(), &deadlines_, clock_), &streams_);
}

}  // namespace millrace::ps
