#include "worker/parameters/call_stream.h"

#include "common/status_macros.h"
#include "grpcpp/support/slice.h"

namespace millrace::worker {
namespace {

// Less is no reason to choose (and open) another stream.
constexpr size_t kLittleLoadBytes = 64 << 10;

}  // namespace

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

size_t PushAnswer::Load(const PushStream& stream) {
  return stream.queued_bytes() / kLittleLoadBytes;
}

size_t PullAnswer::Load(const PullStream& stream) { return stream.calls(); }

}  // namespace millrace::worker
