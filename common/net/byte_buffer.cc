#include "common/net/byte_buffer.h"

#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace millrace {

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

bool FromByteBuffer(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  grpc::ByteBuffer buffer(bytes);  // A reader wants one that it may change; the bytes are shared.
  grpc::ProtoBufferReader reader(&buffer);
  return reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
}

}  // namespace millrace
