// gRPC's statuses and Abseil's: the codes are the same numbers, and so are those in our messages.
// Every status that leaves a server goes through ToGrpcStatus.
#ifndef MILLRACE_COMMON_GRPC_STATUS_H_
#define MILLRACE_COMMON_GRPC_STATUS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/printable.h"
#include "grpcpp/support/status.h"

namespace millrace {

// The message is made Printable: bounded, and without control characters.
inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Printable(status.message()));
}

// What gRPC's own client and server say is said so that people understand it: where the server
// cannot start a thread for a call, which is passing; of a call that it does not know; and where
// the two ends of a connection do not agree on TLS.
absl::Status FromGrpcStatus(const grpc::Status& status);

// The code in a message of another process, which may hold any number; UNAVAILABLE where there is
// no such code: the trouble is with the sender.
inline absl::StatusCode ToStatusCode(int32_t code) {
  constexpr auto kLast = static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  if (code < 0 || code > kLast) return absl::StatusCode::kUnavailable;
  return static_cast<absl::StatusCode>(code);
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_GRPC_STATUS_H_
