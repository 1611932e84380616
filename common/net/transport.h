// What both ends of a connection within a cluster agree on. Internal to common/net.
#ifndef MILLRACE_COMMON_NET_TRANSPORT_H_
#define MILLRACE_COMMON_NET_TRANSPORT_H_

#include "grpc/impl/codegen/compression_types.h"
#include "grpc/impl/codegen/grpc_types.h"

namespace millrace {

struct TransportSetting {
  const char* name;
  int value;
};

// A connection on which nothing comes is pinged after kKeepaliveTimeMs, and given up when no answer
// comes within kKeepaliveTimeoutMs, or when nothing of what was sent has arrived for so long.
inline constexpr int kKeepaliveTimeMs = 20'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;
// The same of connections with values, whose pings and answers wait for what gRPC and the system
// are writing: a few MiB, which take long on a slow network.
inline constexpr int kBulkKeepaliveTimeoutMs = 60'000;

constexpr TransportSetting KeepaliveTimeout(bool bulk) {
  return {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, bulk ? kBulkKeepaliveTimeoutMs : kKeepaliveTimeoutMs};
}

// The largest that HTTP/2 can name: 2^24 - 1.
inline constexpr int kMaxFrameBytes = (16 << 20) - 1;

// And KeepaliveTimeout.
inline constexpr TransportSetting kTransportSettings[] = {
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes},
    // Bytes of a stream that may be under way before its reader asks for them.
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20},
    {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs},
    {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
    // 0: no limit. A stream may be silent for as long as a job has nothing to do.
    {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
    // Nothing is compressed, nor taken where it is: gRPC unpacks a message before it looks at its
    // size, so a megabyte may come to be a gigabyte.
    {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE},
    {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_TRANSPORT_H_
