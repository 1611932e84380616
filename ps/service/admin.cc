#include "ps/service/admin.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/net/checked_request.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "ps/dense/shard_plan.h"
#include "ps/service/shard_transfer.h"

namespace millrace::ps {
namespace {

// Evaluations are numbered by it and a counter in 64 bits; and the highest one must leave room for
// the next.
constexpr uint64_t kGenerations = uint64_t{1} << 32;
// There is always a next one.
constexpr uint64_t kEpochs = uint64_t{1} << 32;

absl::Status CheckGeneration(uint64_t generation) {
  if (generation < kGenerations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("generation: ", generation, "; must be below ", kGenerations));
}

// Longer ones are no part of a key.
absl::Status CheckJobId(const std::string& job_id) {
  if (!job_id.empty() && job_id.size() <= kMaxJobIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("job_id: has ", job_id.size(), " bytes; must have 1 to ", kMaxJobIdBytes));
}

// Long enough for any name, and little enough to be kept and told.
constexpr size_t kMaxCutIdBytes = 200;

absl::Status CheckCutId(const std::string& cut_id) {
  if (!cut_id.empty() && cut_id.size() <= kMaxCutIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cut_id: ", cut_id.size(), " bytes; must be 1 to ", kMaxCutIdBytes));
}

absl::Status CheckEpoch(uint64_t epoch) {
  if (epoch < kEpochs) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("epoch: ", epoch, "; must be below ", kEpochs));
}

// Whether a call that is for the server of one data directory has come to it.
template <typename Request>
absl::Status CheckDirectory(const ShardStore& store, const Request& request) {
  const std::string& wanted = request.directory_id();
  const std::string& own = store.directory().id();
  if (wanted.empty() || wanted == own) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("directory_id: ", PrintableName(wanted),
                                             "; the server at this address has ", own,
                                             ": do two ps servers have one --advertise?"));
}

absl::Status CheckCopy(const CopyShardRequest& request) {
  MILLRACE_RETURN_IF_ERROR(CheckGeneration(request.generation()));
  MILLRACE_RETURN_IF_ERROR(CheckJobId(request.job_id()));
  if (request.generation() <= request.source_generation()) {
    return absl::InvalidArgumentError(absl::StrCat("generation: ", request.generation(),
                                                   "; must be above source_generation, ",
                                                   request.source_generation()));
  }
  if (!request.source_address().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("source_address: is empty; must be that of a ps server");
}

// The shard that a request is for.
template <typename Request>
absl::StatusOr<std::shared_ptr<Shard>> FindShard(const ShardStore& store, const Request& request) {
  MILLRACE_RETURN_IF_ERROR(CheckGeneration(request.generation()));
  return store.shards().Find(request.job_id(), request.shard());
}

// What the caller still waits for; nobody who has gone keeps a thread.
absl::Duration TimeLeft(const grpc::ServerContext& context) {
  return std::clamp(TimeLeftUntil(context.deadline()), absl::ZeroDuration(), ShardStore::kTimeout);
}

template <typename Response>
grpc::Status Reply(absl::StatusOr<Response> result, Response* response) {
  if (!result.ok()) return ToGrpcStatus(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace

// The indices are the methods' places in the service: generated code counts them so too.
Admin::Admin(ShardStore* store) : store_(store) {
  MarkMethodStreamed(0, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::CreateShard));
  MarkMethodStreamed(1, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::GetShard));
  MarkMethodStreamed(2, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::SetGeneration));
  MarkMethodStreamed(3, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::PlanCuts));
  MarkMethodStreamed(4, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::StepBack));
  MarkMethodStreamed(5, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::PinCut));
  MarkMethodStreamed(6, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::UnpinCut));
  MarkMethodStreamed(7, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::FlushCut));
  MarkMethodStreamed(8, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::WriteCheckpoint));
  MarkMethodStreamed(9, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::RetireShard));
  MarkMethodStreamed(10, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::DropShard));
  MarkMethodStreamed(11, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::MeasureVersion));
  MarkMethodStreamed(12, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::ApplyVersion));
  MarkMethodStreamed(13, NewCheckedHandler<kMaxMessageBytes>(this, &Admin::CopyShard));
  MarkMethodStreamed(14,
                     NewCheckedStreamHandler<kMaxMessageBytes, ReadShardRequest, ReadShardResponse>(
                         [this](grpc::ServerContext* /*context*/, const ReadShardRequest& request,
                                const auto& write) { return Send(request, write); }));
}

grpc::Status Admin::CreateShard(grpc::ServerContext* context, const CreateShardRequest* request,
                                ShardStatus* response) {
  absl::Status valid = CheckGeneration(request->generation());
  if (valid.ok()) valid = CheckDirectory(*store_, *request);
  if (!valid.ok()) return ToGrpcStatus(valid);
  return Reply(store_->Create(request->spec(), request->generation(), TimeLeft(*context)),
               response);
}

grpc::Status Admin::GetShard(grpc::ServerContext* /*context*/, const GetShardRequest* request,
                             ShardStatus* response) {
  const absl::Status valid = CheckDirectory(*store_, *request);
  if (!valid.ok()) return ToGrpcStatus(valid);
  const auto shard = store_->shards().Find(request->job_id(), request->shard());
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  *response = (*shard)->Status();
  return grpc::Status::OK;
}

grpc::Status Admin::SetGeneration(grpc::ServerContext* context, const SetGenerationRequest* request,
                                  ShardStatus* response) {
  absl::Status valid = CheckGeneration(request->generation());
  if (valid.ok()) valid = CheckDirectory(*store_, *request);
  if (!valid.ok()) return ToGrpcStatus(valid);
  return Reply(store_->SetGeneration(request->job_id(), request->shard(), request->generation(),
                                     TimeLeft(*context)),
               response);
}

grpc::Status Admin::PinCut(grpc::ServerContext* /*context*/, const PinCutRequest* request,
                           ShardStatus* response) {
  const absl::Status valid = CheckCutId(request->cut_id());
  if (!valid.ok()) return ToGrpcStatus(valid);
  const auto shard = FindShard(*store_, *request);
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return Reply((*shard)->PinCut(request->generation(), request->cut_id()), response);
}

grpc::Status Admin::UnpinCut(grpc::ServerContext* /*context*/, const UnpinCutRequest* request,
                             UnpinCutResponse* /*response*/) {
  const auto shard = FindShard(*store_, *request);
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return ToGrpcStatus((*shard)->UnpinCut(request->generation(), request->cut_id()));
}

grpc::Status Admin::FlushCut(grpc::ServerContext* context, const FlushCutRequest* request,
                             ShardStatus* response) {
  const absl::Status valid = CheckGeneration(request->generation());
  if (!valid.ok()) return ToGrpcStatus(valid);
  return Reply(
      store_->Flush(request->job_id(), request->shard(), request->generation(), TimeLeft(*context)),
      response);
}

grpc::Status Admin::WriteCheckpoint(grpc::ServerContext* context,
                                    const WriteCheckpointRequest* request,
                                    WriteCheckpointResponse* response) {
  absl::Status valid = CheckGeneration(request->generation());
  if (request->has_cut_id()) valid.Update(CheckCutId(request->cut_id()));
  if (!valid.ok()) return ToGrpcStatus(valid);
  absl::StatusOr<WriteCheckpointResponse> written = store_->WriteCheckpoint(
      *request, [context] { return context->IsCancelled(); }, TimeLeft(*context));
  if (!written.ok()) return ToGrpcStatus(written.status());
  *response = *std::move(written);
  return grpc::Status::OK;
}

grpc::Status Admin::PlanCuts(grpc::ServerContext* /*context*/, const PlanCutsRequest* request,
                             ShardStatus* response) {
  const absl::Status valid = CheckGeneration(request->generation());
  if (!valid.ok()) return ToGrpcStatus(valid);
  return Reply(store_->PlanCuts(*request), response);
}

grpc::Status Admin::StepBack(grpc::ServerContext* context, const StepBackRequest* request,
                             ShardStatus* response) {
  absl::Status valid = CheckGeneration(request->generation());
  valid.Update(CheckEpoch(request->epoch()));
  if (!valid.ok()) return ToGrpcStatus(valid);
  return Reply(store_->StepBack(*request, TimeLeft(*context)), response);
}

grpc::Status Admin::RetireShard(grpc::ServerContext* context, const RetireShardRequest* request,
                                ShardStatus* response) {
  const absl::Status valid = CheckGeneration(request->generation());
  if (!valid.ok()) return ToGrpcStatus(valid);
  return Reply(store_->Retire(request->job_id(), request->shard(), request->generation(),
                              TimeLeft(*context)),
               response);
}

grpc::Status Admin::DropShard(grpc::ServerContext* context, const DropShardRequest* request,
                              DropShardResponse* /*response*/) {
  absl::Status valid = CheckGeneration(request->generation());
  if (valid.ok()) valid = CheckJobId(request->job_id());
  if (valid.ok()) valid = CheckDirectory(*store_, *request);
  if (!valid.ok()) return ToGrpcStatus(valid);
  return ToGrpcStatus(
      store_->Drop(request->job_id(), request->shard(), request->generation(), TimeLeft(*context)));
}

grpc::Status Admin::MeasureVersion(grpc::ServerContext* /*context*/,
                                   const MeasureVersionRequest* request,
                                   MeasureVersionResponse* response) {
  const auto shard = FindShard(*store_, *request);
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return Reply((*shard)->MeasureVersion(*request), response);
}

grpc::Status Admin::ApplyVersion(grpc::ServerContext* /*context*/,
                                 const ApplyVersionRequest* request,
                                 ApplyVersionResponse* response) {
  const auto shard = FindShard(*store_, *request);
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return Reply((*shard)->ApplyVersion(*request), response);
}

grpc::Status Admin::CopyShard(grpc::ServerContext* context, const CopyShardRequest* request,
                              ShardStatus* response) {
  absl::Status valid = CheckCopy(*request);
  if (valid.ok()) valid = CheckDirectory(*store_, *request);
  if (!valid.ok()) return ToGrpcStatus(valid);
  const absl::Duration timeout = TimeLeft(*context);
  const std::unique_ptr<ShardSource> source = ReadFromServer(*request, timeout);
  return Reply(store_->Copy(*request, *source, timeout), response);
}

grpc::Status Admin::Send(const ReadShardRequest& request,
                         const std::function<bool(const ReadShardResponse&)>& write) {
  const absl::Status valid = CheckDirectory(*store_, request);
  if (!valid.ok()) return ToGrpcStatus(valid);
  const auto shard = FindShard(*store_, request);
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  return ToGrpcStatus(SendShard(**shard, request.generation(), write));
}

}  // namespace millrace::ps
