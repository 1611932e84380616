#include "coordinator/shards/can_be_called.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/retry.h"
#include "grpcpp/client_context.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

bool CanBeCalled(const std::string& address, const std::string& directory_id,
                 const std::string& job_id) {
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(address));
  grpc::ClientContext context;
  context.set_deadline(SystemDeadline(kPatience));
  GetShardRequest request;
  request.set_job_id(job_id);
  request.set_directory_id(directory_id);
  ShardStatus response;
  const absl::StatusCode code = FromGrpcStatus(stub->GetShard(&context, request, &response)).code();
  return code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kDeadlineExceeded &&
         !IsNoAnswerOfOurs(code);
}

}  // namespace millrace::coordinator
