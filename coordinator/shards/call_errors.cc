#include "coordinator/shards/call_errors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/printable.h"
#include "common/retry.h"

namespace millrace::coordinator {
namespace {

constexpr char kBare[] = "CANCELLED";  // A message that says no more than the code.

absl::StatusCode CodeOf(const grpc::Status& status) {
  const absl::StatusCode code = FromGrpcStatus(status).code();
  return IsNoAnswerOfOurs(code) ? absl::StatusCode::kUnavailable : code;
}

// Nobody needs to wait for an error to pass where another one will not; and who waits for memory
// must make way for others.
int Badness(const grpc::Status& status) {
  switch (Classify(CodeOf(status))) {
    case Failure::kNone:
      return 0;
    case Failure::kPassing:
    case Failure::kStale:
      return 1;
    case Failure::kFull:
      return 2;
    case Failure::kFinal:
      break;
  }
  return 3;
}

}  // namespace

absl::Status CallError(const char* call, const CallTarget& target, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  std::string message = Printable(FromGrpcStatus(status).message());
  // That is all that gRPC says of a call that the caller or the server's end has cut short.
  if (status.error_code() == grpc::StatusCode::CANCELLED && (message.empty() || message == kBare)) {
    message = target.is_there
                  ? "the server has given up the call"
                  : "the call was given up, since the server went, or was started again";
  }
  return absl::Status(CodeOf(status), absl::StrCat(target.server, ": ", call, " of shard ",
                                                   target.shard, ": ", message));
}

absl::optional<uint32_t> WorstOf(const std::vector<grpc::Status>& statuses) {
  const auto worst =
      std::max_element(statuses.begin(), statuses.end(),
                       [](const auto& a, const auto& b) { return Badness(a) < Badness(b); });
  if (worst == statuses.end() || worst->ok()) return absl::nullopt;
  return static_cast<uint32_t>(worst - statuses.begin());
}

}  // namespace millrace::coordinator
