// Client channels within a cluster.
#ifndef MILLRACE_COMMON_NET_CHANNEL_H_
#define MILLRACE_COMMON_NET_CHANNEL_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"

namespace millrace {

// Settings of the process that gRPC's speed depends on: call first thing in main(), before any
// other gRPC call. Turns on the two experiments that let gRPC 1.51 read large frames in large
// slices (tcp_frame_size_tuning, tcp_rcv_lowat), unless the user has set GRPC_EXPERIMENTS; has gRPC
// look after connections that nobody waits on every 0.1 s
// (GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS), so that calls that fail fast and are repeated find
// a server soon after it is back; and lets glibc's malloc keep up to 64 MiB of free memory for each
// arena, unless the user has set its variables.
void ConfigureGrpcEnvironment();

// A channel to `address` (HOST:PORT, or unix:PATH), secured as SecureConnections has said last.
// Does not connect yet. Ignores the environment's proxies. `bulk`, for values: shares no connection
// with other channels to the address. The message limit is kMaxMessageBytes; reconnects back off
// from 50 ms to 2 s; a dead peer is noticed by keepalive within about 30 s, with `bulk` within
// about 80 s.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, bool bulk = false);

// Of one message, in either direction.
inline constexpr int kMaxMessageBytes = 16 << 20;

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_CHANNEL_H_
