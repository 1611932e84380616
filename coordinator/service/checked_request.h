// Requests that are parsed by us rather than by gRPC, which answers bytes that are no message with
// INTERNAL and no text, and parses whatever a message's limit lets through.
#ifndef MILLRACE_COORDINATOR_SERVICE_CHECKED_REQUEST_H_
#define MILLRACE_COORDINATOR_SERVICE_CHECKED_REQUEST_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/codegen/serialization_traits.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Of requests that name a job, and of one that brings a spec. A parsed message takes some ten times
// its bytes.
inline constexpr size_t kMaxRequestBytes = 64 << 10;
inline constexpr size_t kMaxSubmissionBytes = 2 << 20;

template <typename Request>
constexpr size_t MaxBytesOf() {
  return kMaxRequestBytes;
}
template <>
constexpr size_t MaxBytesOf<SubmitJobRequest>() {
  return kMaxSubmissionBytes;
}

// What a call brought. INVALID_ARGUMENT: it is too large, or no `Request`, and was not parsed.
template <typename Request>
struct CheckedRequest {
  Request request;
  absl::Status status;
  size_t bytes = 0;
};

template <typename Request>
absl::Status ParseRequest(grpc::ByteBuffer* bytes, Request* request) {
  if (bytes->Length() > MaxBytesOf<Request>()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request: ", bytes->Length(), " bytes; must be at most ", MaxBytesOf<Request>()));
  }
  if (grpc::SerializationTraits<Request>::Deserialize(bytes, request).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request: its bytes are no ", Request::descriptor()->full_name()));
}

}  // namespace millrace::coordinator

namespace grpc {

// How gRPC is taught a type of message. It always succeeds: what is wrong is for the handler to
// say.
template <typename Request>
class SerializationTraits<millrace::coordinator::CheckedRequest<Request>> {
 public:
  static Status Deserialize(ByteBuffer* bytes,
                            millrace::coordinator::CheckedRequest<Request>* checked) {
    checked->bytes = bytes->Length();
    checked->status = millrace::coordinator::ParseRequest(bytes, &checked->request);
    bytes->Clear();
    return Status::OK;
  }
};

}  // namespace grpc

#endif  // MILLRACE_COORDINATOR_SERVICE_CHECKED_REQUEST_H_
