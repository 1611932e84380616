#include "common/net/channel.h"

#include <cstdlib>
#include <string>

#include "common/net/transport.h"
#include "grpc/impl/codegen/grpc_types.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace millrace {
namespace {

constexpr int kFirstBackoffMs = 50;
constexpr int kMaxBackoffMs = 2000;
// Despite its name, grpc.min_reconnect_backoff_ms bounds one attempt to connect.
constexpr int kConnectTimeoutMs = 5000;

grpc::ChannelArguments Arguments(bool own_connection) {
  grpc::ChannelArguments args;
  for (const TransportSetting& setting : kTransportSettings)
    args.SetInt(setting.name, setting.value);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, own_connection ? 1 : 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxBackoffMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  return args;
}

}  // namespace

void ConfigureGrpcEnvironment() {
  setenv("GRPC_EXPERIMENTS", "tcp_frame_size_tuning,tcp_rcv_lowat", /*replace=*/0);
}

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, bool own_connection) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   Arguments(own_connection));
}

}  // namespace millrace
