// Shards that a FakePs has from another one. Of these the states alone travel: there are no values.
#include "common/applied_set.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "coordinator/testing/fake_ps.h"

namespace millrace::coordinator {

grpc::Status FakePs::ReadShard(grpc::ServerContext*, const ReadShardRequest* request,
                               grpc::ServerWriter<ReadShardResponse>* writer) {
  if (const grpc::Status status = CheckDirectory(*request); !status.ok()) return status;
  ReadShardResponse response;
  {
    MutexLock lock(&mutex_);
    Shard* shard = nullptr;
    const grpc::Status status = FindOpen(*request, &shard);
    if (!status.ok()) return status;
    if (shard->held.size() > 0 || shard->retired) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "retired, or holds contributions"};
    }
    ShardSnapshot& snapshot = *response.mutable_snapshot();
    *snapshot.mutable_spec() = shard->spec;
    snapshot.set_epoch(shard->epoch);
    snapshot.set_version(shard->version);
    *snapshot.mutable_applied() = shard->applied.ToProto();
  }
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status FakePs::CopyShard(grpc::ServerContext*, const CopyShardRequest* request,
                               ShardStatus* response) {
  grpc::Status status = CheckDirectory(*request);
  if (status.ok() && on_copy_) status = on_copy_();
  ShardSnapshot snapshot;
  if (status.ok()) status = ReadSnapshot(*request, &snapshot);
  if (!status.ok()) return status;
  const auto applied = AppliedSet::FromProto(snapshot.applied());
  if (!applied.ok()) return ToGrpcStatus(applied.status());
  MutexLock lock(&mutex_);
  const Key key(request->job_id(), request->shard());
  Shard& shard = shards_[key];
  if (shard.generation > request->generation()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "at a newer generation"};
  }
  if (shard.generation < request->generation()) {
    shard = Shard();
    shard.spec = snapshot.spec();
    shard.generation = request->generation();
    shard.epoch = snapshot.epoch();
    shard.version = snapshot.version();
    shard.applied = *applied;
    shard.origin = ShardStatus::COPY;
    Flush(key, shard);
    dropped_.SignalAll();
  }
  *response = StatusOf(key, shard);
  return grpc::Status::OK;
}

grpc::Status FakePs::ReadSnapshot(const CopyShardRequest& request, ShardSnapshot* snapshot) {
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(request.source_address()));
  ReadShardRequest read;
  read.set_job_id(request.job_id());
  read.set_shard(request.shard());
  read.set_generation(request.source_generation());
  read.set_directory_id(request.source_directory_id());
  grpc::ClientContext context;
  const auto reader = stub->ReadShard(&context, read);
  ReadShardResponse response;
  while (reader->Read(&response)) *snapshot = response.snapshot();
  return reader->Finish();
}

}  // namespace millrace::coordinator
