// Unary methods whose requests are parsed by us rather than by gRPC, which answers bytes that are
// no message with INTERNAL and no text, and parses whatever a message's limit lets through.
#ifndef MILLRACE_COMMON_NET_CHECKED_REQUEST_H_
#define MILLRACE_COMMON_NET_CHECKED_REQUEST_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/grpc_status.h"
#include "common/memory_trimmer.h"
#include "common/net/call_timer.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/codegen/serialization_traits.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/method_handler.h"
#include "grpcpp/support/status.h"
#include "grpcpp/support/sync_stream.h"

namespace millrace {

// What a call brought. INVALID_ARGUMENT: it is larger than kMaxBytes, or no `Request`, and was not
// parsed.
template <typename Request, size_t kMaxBytes>
struct CheckedRequest {
  Request request;
  absl::Status status;
  size_t bytes = 0;
};

template <typename Request>
absl::Status ParseRequest(grpc::ByteBuffer* bytes, size_t max_bytes, Request* request) {
  if (bytes->Length() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request: ", bytes->Length(), " bytes; must be at most ", max_bytes));
  }
  if (grpc::SerializationTraits<Request>::Deserialize(bytes, request).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request: its bytes are no ", Request::descriptor()->full_name()));
}

inline grpc::Status NoRequest() {
  return ToGrpcStatus(absl::InvalidArgumentError("the call ended without a request"));
}

// A request that has not come by then ends its call.
inline constexpr absl::Duration kRequestPatience = absl::Seconds(30);

// Reads the only request of `stream`; false: it does not come.
template <typename Stream, typename Checked>
bool ReadRequest(grpc::ServerContext* context, absl::Duration patience, Stream* stream,
                 Checked* checked) {
  CallTimer timer(context, patience);
  return stream->Read(checked);
}

// A request of more takes much memory while it is parsed, some ten times its bytes, which malloc
// would keep.
inline constexpr size_t kLargeRequestBytes = 256 << 10;

// The handler of a method of `service`, for grpc::Service::MarkMethodStreamed, which comes to own
// it. `method` gets requests that are sound; it runs on gRPC's threads and may block.
template <size_t kMaxBytes, typename Service, typename Request, typename Response>
grpc::internal::MethodHandler* NewCheckedHandler(
    Service* service,
    grpc::Status (Service::*method)(grpc::ServerContext*, const Request*, Response*),
    absl::Duration patience = kRequestPatience) {
  using Checked = CheckedRequest<Request, kMaxBytes>;
  using Stream = grpc::ServerUnaryStreamer<Checked, Response>;
  return new grpc::internal::StreamedUnaryHandler<Checked, Response>(
      [service, method, patience](grpc::ServerContext* context, Stream* stream) {
        auto checked = std::make_unique<Checked>();
        if (!ReadRequest(context, patience, stream, checked.get())) return NoRequest();
        Response response;
        const grpc::Status status = checked->status.ok()
                                        ? (service->*method)(context, &checked->request, &response)
                                        : ToGrpcStatus(checked->status);
        const bool large = checked->bytes > kLargeRequestBytes;
        checked.reset();
        if (large) MemoryTrimmer::TrimMalloc();
        if (status.ok()) stream->Write(response);
        return status;
      });
}

// The same of a method that answers one request with a stream. `method` is called with the request
// and a function that writes an answer: it blocks, and returns false when nobody reads any more.
template <size_t kMaxBytes, typename Request, typename Response, typename Method>
grpc::internal::MethodHandler* NewCheckedStreamHandler(Method method) {
  using Checked = CheckedRequest<Request, kMaxBytes>;
  using Stream = grpc::ServerSplitStreamer<Checked, Response>;
  return new grpc::internal::SplitServerStreamingHandler<Checked, Response>(
      [method](grpc::ServerContext* context, Stream* stream) {
        Checked checked;
        if (!ReadRequest(context, kRequestPatience, stream, &checked)) return NoRequest();
        if (!checked.status.ok()) return ToGrpcStatus(checked.status);
        return method(context, checked.request,
                      [stream](const Response& response) { return stream->Write(response); });
      });
}

}  // namespace millrace

namespace grpc {

// How gRPC is taught a type of message. It always succeeds: what is wrong is for the handler to
// say.
template <typename Request, size_t kMaxBytes>
class SerializationTraits<millrace::CheckedRequest<Request, kMaxBytes>> {
 public:
  static Status Deserialize(ByteBuffer* bytes,
                            millrace::CheckedRequest<Request, kMaxBytes>* checked) {
    checked->bytes = bytes->Length();
    checked->status = millrace::ParseRequest(bytes, kMaxBytes, &checked->request);
    bytes->Clear();
    return Status::OK;
  }
};

}  // namespace grpc

#endif  // MILLRACE_COMMON_NET_CHECKED_REQUEST_H_
