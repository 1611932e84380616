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

// What gRPC's own server answers is said so that people understand it: where it cannot start a
// thread for a call, which is passing, and of a call that it does not know.
inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.error_message() == "Server Threadpool Exhausted") {
    return absl::UnavailableError(
        "the server has no thread left to answer with; close connections that are not needed, or "
        "allow it more (ulimit -u, TasksMax= of a systemd unit, or pids.max of a container)");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return absl::UnimplementedError(
        "what listens there does not know this call: it is another kind of server than was meant "
        "(a ps in a coordinator's place, say), or one of another release");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// The code in a message of another process, which may hold any number; UNAVAILABLE where there is
// no such code: the trouble is with the sender.
inline absl::StatusCode ToStatusCode(int32_t code) {
  constexpr auto kLast = static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  if (code < 0 || code > kLast) return absl::StatusCode::kUnavailable;
  return static_cast<absl::StatusCode>(code);
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_GRPC_STATUS_H_
