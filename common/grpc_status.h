// gRPC's statuses and Abseil's: the codes are the same numbers. Every status that leaves a server
// goes through ToGrpcStatus.
#ifndef MILLRACE_COMMON_GRPC_STATUS_H_
#define MILLRACE_COMMON_GRPC_STATUS_H_

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

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_GRPC_STATUS_H_
