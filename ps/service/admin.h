// The ParameterServerAdmin service.
#ifndef MILLRACE_PS_SERVICE_ADMIN_H_
#define MILLRACE_PS_SERVICE_ADMIN_H_

#include <functional>

#include "protos/parameter_server.grpc.pb.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {

// Bytes that are no request are refused, and calls that carry a generation are refused here where
// it is none; the store and its shards compare it with theirs. Synchronous: its methods may wait
// for the disk, on threads of their own. Statuses as documented in the .proto. Thread-safe.
class Admin final : public ParameterServerAdmin::Service {
 public:
  // `store` must outlive it.
  explicit Admin(ShardStore* store);

  grpc::Status CreateShard(grpc::ServerContext* context, const CreateShardRequest* request,
                           ShardStatus* response) override;
  grpc::Status GetShard(grpc::ServerContext* context, const GetShardRequest* request,
                        ShardStatus* response) override;
  grpc::Status SetGeneration(grpc::ServerContext* context, const SetGenerationRequest* request,
                             ShardStatus* response) override;
  grpc::Status PinCut(grpc::ServerContext* context, const PinCutRequest* request,
                      ShardStatus* response) override;
  grpc::Status UnpinCut(grpc::ServerContext* context, const UnpinCutRequest* request,
                        UnpinCutResponse* response) override;
  grpc::Status FlushCut(grpc::ServerContext* context, const FlushCutRequest* request,
                        ShardStatus* response) override;
  grpc::Status PlanCuts(grpc::ServerContext* context, const PlanCutsRequest* request,
                        ShardStatus* response) override;
  grpc::Status StepBack(grpc::ServerContext* context, const StepBackRequest* request,
                        ShardStatus* response) override;
  grpc::Status WriteCheckpoint(grpc::ServerContext* context, const WriteCheckpointRequest* request,
                               WriteCheckpointResponse* response) override;
  grpc::Status RetireShard(grpc::ServerContext* context, const RetireShardRequest* request,
                           ShardStatus* response) override;
  grpc::Status DropShard(grpc::ServerContext* context, const DropShardRequest* request,
                         DropShardResponse* response) override;
  grpc::Status MeasureVersion(grpc::ServerContext* context, const MeasureVersionRequest* request,
                              MeasureVersionResponse* response) override;
  grpc::Status ApplyVersion(grpc::ServerContext* context, const ApplyVersionRequest* request,
                            ApplyVersionResponse* response) override;
  grpc::Status CopyShard(grpc::ServerContext* context, const CopyShardRequest* request,
                         ShardStatus* response) override;

 private:
  // ReadShard, whose answers go to `write`.
  grpc::Status Send(const ReadShardRequest& request,
                    const std::function<bool(const ReadShardResponse&)>& write);

  ShardStore* const store_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_ADMIN_H_
