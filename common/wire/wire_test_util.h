// Messages cut into slices as a network might, and put together again.
#ifndef MILLRACE_COMMON_WIRE_WIRE_TEST_UTIL_H_
#define MILLRACE_COMMON_WIRE_WIRE_TEST_UTIL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "protos/parameter_server.pb.h"

namespace millrace::testing {

// `values` as they stand in memory.
std::string Bytes(const std::vector<float>& values);

// `bytes` in slices that end at each of `cuts` (ascending; equal ones make empty slices) and at the
// end.
std::vector<grpc::Slice> CutAt(const std::string& bytes, const std::vector<size_t>& cuts);

// `bytes` in slices of `size` bytes.
std::vector<grpc::Slice> CutInto(const std::string& bytes, size_t size);

// Whether the pieces are such as DecodePush takes, where there are not too many: elements of rows
// stand where these do, and nowhere else, and all are whole numbers.
bool HasUsablePieces(const PushRequest& push);

grpc::ByteBuffer ToBuffer(const std::vector<grpc::Slice>& slices);
std::string ToString(const grpc::ByteBuffer& buffer);

}  // namespace millrace::testing

#endif  // MILLRACE_COMMON_WIRE_WIRE_TEST_UTIL_H_
