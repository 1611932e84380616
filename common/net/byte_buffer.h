// Messages and their bytes, for methods of the raw API.
#ifndef MILLRACE_COMMON_NET_BYTE_BUFFER_H_
#define MILLRACE_COMMON_NET_BYTE_BUFFER_H_

#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

namespace millrace {

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message);

// False: the bytes are no such message, and what is in `message` has no meaning.
bool FromByteBuffer(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_BYTE_BUFFER_H_
