#include "common/net/channel.h"

#include <malloc.h>

#include <cstdlib>
#include <string>

#include "common/net/credentials.h"
#include "common/net/transport.h"
#include "grpc/impl/codegen/grpc_types.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace millrace {
namespace {

constexpr int kFirstBackoffMs = 50;
constexpr int kMaxBackoffMs = 2000;
// Despite its name, grpc.min_reconnect_backoff_ms bounds one attempt to connect.
constexpr int kConnectTimeoutMs = 5000;

// Memory that each of malloc's arenas may keep when it is free, and the size of an allocation from
// which on it is mapped on its own.
constexpr int kKeptFreeBytes = 64 << 20;
constexpr int kMinMappedBytes = 2 << 20;

grpc::ChannelArguments Arguments(bool bulk) {
  grpc::ChannelArguments args;
  for (const TransportSetting& setting : kTransportSettings)
    args.SetInt(setting.name, setting.value);
  args.SetInt(KeepaliveTimeout(bulk).name, KeepaliveTimeout(bulk).value);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, bulk ? 1 : 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxBackoffMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  return args;
}

}  // namespace

void ConfigureGrpcEnvironment() {
  setenv("GRPC_EXPERIMENTS", "tcp_frame_size_tuning,tcp_rcv_lowat", /*replace=*/0);
  // A connection that is being made goes on only while somebody polls it: a call that waits on it,
  // or this timer. Calls that fail at once, and are tried again, leave it to the timer, whose
  // default of five seconds would be the time that a reconnect takes.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*replace=*/0);
#ifdef __GLIBC__
  // By default, the memory of received slices goes back to the system as soon as it is freed, and
  // every page of it is faulted in again for the next ones: a tenth of the throughput.
  if (getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) mallopt(M_TRIM_THRESHOLD, kKeptFreeBytes);
  if (getenv("MALLOC_MMAP_THRESHOLD_") == nullptr) mallopt(M_MMAP_THRESHOLD, kMinMappedBytes);
#endif
}

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, bool bulk) {
  const ChannelSecurity security = SecurityOfChannel(address);
  grpc::ChannelArguments args = Arguments(bulk);
  if (!security.server_name.empty()) args.SetSslTargetNameOverride(security.server_name);
  return grpc::CreateCustomChannel(address, security.credentials, args);
}

}  // namespace millrace
