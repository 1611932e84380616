// Calls of the ParameterServerAdmin service, for tests over the wire.
#ifndef MILLRACE_PS_SHARD_ADMIN_H_
#define MILLRACE_PS_SHARD_ADMIN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::ps {

// As the service says, of shards given by their specs; where no generation is named it is 1.
class ShardAdmin {
 public:
  void ConnectAdmin(const std::shared_ptr<grpc::Channel>& channel) {
    admin_ = ParameterServerAdmin::NewStub(channel);
  }

  grpc::Status Create(const ShardSpec& spec, uint64_t generation = 1,
                      const std::string& directory_id = "") {
    CreateShardRequest request;
    *request.mutable_spec() = spec;
    request.set_generation(generation);
    request.set_directory_id(directory_id);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->CreateShard(&context, request, &status);
  }

  ShardStatus Get(const ShardSpec& spec) {
    GetShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    grpc::ClientContext context;
    ShardStatus status;
    EXPECT_TRUE(admin_->GetShard(&context, request, &status).ok());
    return status;
  }

  grpc::Status SetGeneration(const ShardSpec& spec, uint64_t generation,
                             const std::string& directory_id = "") {
    auto request = RequestFor<SetGenerationRequest>(spec, generation);
    request.set_directory_id(directory_id);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->SetGeneration(&context, request, &status);
  }

  grpc::Status Pin(const ShardSpec& spec, const std::string& cut_id, ShardStatus* status) {
    auto request = RequestFor<PinCutRequest>(spec);
    request.set_cut_id(cut_id);
    grpc::ClientContext context;
    return admin_->PinCut(&context, request, status);
  }

  grpc::Status Flush(const ShardSpec& spec, ShardStatus* status) {
    grpc::ClientContext context;
    return admin_->FlushCut(&context, RequestFor<FlushCutRequest>(spec), status);
  }

  // To the cut of `version` in epoch 0, which ends.
  grpc::Status StepBack(const ShardSpec& spec, uint64_t version) {
    auto request = RequestFor<StepBackRequest>(spec);
    request.mutable_cut()->set_version(version);
    request.set_epoch(1);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->StepBack(&context, request, &status);
  }

  grpc::Status Drop(const ShardSpec& spec, uint64_t generation = 1,
                    const std::string& directory_id = "") {
    auto request = RequestFor<DropShardRequest>(spec, generation);
    request.set_directory_id(directory_id);
    grpc::ClientContext context;
    DropShardResponse response;
    return admin_->DropShard(&context, request, &response);
  }

 protected:
  template <typename Request>
  static Request RequestFor(const ShardSpec& spec, uint64_t generation = 1) {
    Request request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(generation);
    return request;
  }

  std::unique_ptr<ParameterServerAdmin::Stub> admin_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_ADMIN_H_
