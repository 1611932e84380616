#include "ps/service/admin.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/grpc_status.h"

namespace millrace::ps {
namespace {

// What the caller still waits for; nobody who has gone keeps a thread.
absl::Duration TimeLeft(const grpc::ServerContext& context) {
  const absl::Duration left = absl::FromChrono(context.deadline()) - absl::Now();
  return std::clamp(left, absl::ZeroDuration(), ShardStore::kTimeout);
}

grpc::Status Reply(absl::StatusOr<ShardStatus> result, ShardStatus* response) {
  if (!result.ok()) return ToGrpcStatus(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status Admin::CreateShard(grpc::ServerContext* context, const CreateShardRequest* request,
                                ShardStatus* response) {
  return Reply(store_->Create(request->spec(), request->generation(), TimeLeft(*context)),
               response);
}

grpc::Status Admin::GetShard(grpc::ServerContext* /*context*/, const GetShardRequest* request,
                             ShardStatus* response) {
  const auto shard = store_->shards().Find(request->job_id(), request->shard());
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return Reply((*shard)->Status(), response);
}

grpc::Status Admin::SetGeneration(grpc::ServerContext* context, const SetGenerationRequest* request,
                                  ShardStatus* response) {
  return Reply(store_->SetGeneration(request->job_id(), request->shard(), request->generation(),
                                     TimeLeft(*context)),
               response);
}

grpc::Status Admin::PinCut(grpc::ServerContext* /*context*/, const PinCutRequest* request,
                           ShardStatus* response) {
  const auto shard = store_->shards().Find(request->job_id(), request->shard());
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return Reply((*shard)->PinCut(request->generation(), request->cut_id()), response);
}

grpc::Status Admin::UnpinCut(grpc::ServerContext* /*context*/, const UnpinCutRequest* request,
                             UnpinCutResponse* /*response*/) {
  const auto shard = store_->shards().Find(request->job_id(), request->shard());
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  (*shard)->UnpinCut(request->cut_id());
  return grpc::Status::OK;
}

grpc::Status Admin::FlushCut(grpc::ServerContext* context, const FlushCutRequest* request,
                             ShardStatus* response) {
  return Reply(store_->Flush(request->job_id(), request->shard(), TimeLeft(*context)), response);
}

grpc::Status Admin::DropShard(grpc::ServerContext* context, const DropShardRequest* request,
                              DropShardResponse* /*response*/) {
  return ToGrpcStatus(store_->Drop(request->job_id(), request->shard(), TimeLeft(*context)));
}

}  // namespace millrace::ps
