// How a call to a coordinator ended.
#ifndef MILLRACE_COMMON_NET_COORDINATOR_STATUS_H_
#define MILLRACE_COMMON_NET_COORDINATOR_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "grpcpp/support/status.h"

namespace millrace {

// As FromGrpcStatus; but of a call that nobody there knows gRPC says nothing. `where` it was sent:
// "at HOST:PORT".
inline absl::Status FromCoordinator(const grpc::Status& status, const std::string& where) {
  if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED || !status.error_message().empty()) {
    return FromGrpcStatus(status);
  }
  return absl::UnimplementedError(absl::StrCat(
      "what listens ", where, " is no coordinator (a ps server, say), or one of an older release"));
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_COORDINATOR_STATUS_H_
