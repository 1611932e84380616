#include "common/net/raw_call.h"

#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "glog/logging.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace millrace {
namespace {

// The result of the operation that was started last.
bool Await(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  CHECK(queue.Next(&tag, &ok));
  return ok;
}

}  // namespace

absl::Status CallRaw(const std::string& address, const std::string& method,
                     const std::string& bytes, bool half_close) {
  grpc::GenericStub stub(CreateChannel(address));
  grpc::ClientContext context;
  context.set_deadline(SystemDeadline(absl::Seconds(60)));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  Await(queue);
  const grpc::Slice slice(bytes);
  grpc::WriteOptions options;
  if (half_close) options.set_last_message();
  call->Write(grpc::ByteBuffer(&slice, 1), options, nullptr);
  Await(queue);
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, nullptr);
  } while (Await(queue));
  grpc::Status status;
  call->Finish(&status, nullptr);
  Await(queue);
  return FromGrpcStatus(status);
}

}  // namespace millrace
