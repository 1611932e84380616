#include "worker/parameters/call_stream.h"

#include "common/status_macros.h"
#include "grpcpp/support/slice.h"

namespace millrace::worker {

absl::StatusOr<PushAnswer> PushAnswer::Decode(const grpc::ByteBuffer& message) {
  PushAnswer answer;
  grpc::Slice bytes;
  if (message.DumpToSingleSlice(&bytes).ok() &&
      answer.header.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
    return answer;
  }
  return absl::InvalidArgumentError("the answer is not a valid PushResponse");
}

absl::StatusOr<PullAnswer> PullAnswer::Decode(const grpc::ByteBuffer& message) {
  MILLRACE_ASSIGN_OR_RETURN(DecodedPull pull, DecodePull(message));
  return PullAnswer{std::move(pull)};
}

}  // namespace millrace::worker
