// Walks protobuf's wire format where it lies: in the slices that gRPC received.
#ifndef MILLRACE_COMMON_WIRE_WIRE_READER_H_
#define MILLRACE_COMMON_WIRE_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "grpcpp/support/slice.h"

namespace millrace {

// Accepts exactly the encodings that protobuf's own parser accepts: tags and lengths of at most
// five bytes, varints of at most ten, groups that match and are nested no deeper than allowed. Each
// method returns false on bytes that are not so; then the reader is of no more use. Reads no byte
// past the end or the limit. Not thread-safe.
class WireReader {
 public:
  // `slices` must outlive the reader.
  explicit WireReader(const std::vector<grpc::Slice>& slices);

  // Bytes read so far.
  size_t position() const { return position_; }
  bool AtLimit() const { return position_ == limit_; }

  // Ends reading after `length` more bytes: the extent of a nested message. Returns the limit so
  // far, for SetLimit. REQUIRES: length <= the bytes that remain.
  size_t PushLimit(size_t length);
  void SetLimit(size_t limit) { limit_ = limit; }

  // A field's number and wire type.
  bool ReadTag(uint32_t* tag);
  // The length of a length-delimited field, which does not pass the limit.
  bool ReadLength(size_t* length);

  // Appends the field that `tag` begins, the tag included, to `out`. `depth`: how many groups may
  // be nested in each other.
  bool CopyField(uint32_t tag, int depth, std::string* out);

  // Replaces `out` by references to the next `length` bytes. Fails when the limit comes first.
  bool TakeSlices(size_t length, std::vector<grpc::Slice>* out);

 private:
  bool ReadByte(uint8_t* byte);
  bool CopyVarint(std::string* out);
  bool CopyBytes(size_t length, std::string* out);
  bool CopyGroup(uint32_t start_tag, int depth, std::string* out);
  // Calls `visit(slice, begin, end)` for the next `length` bytes, slice by slice.
  template <typename Visitor>
  bool Advance(size_t length, Visitor visit);

  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;   // The slice at hand,
  size_t offset_ = 0;  // and the next byte in it.
  size_t position_ = 0;
  size_t limit_ = 0;
};

// Appends `value` as a varint.
void AppendVarint(uint64_t value, std::string* out);

// Bytes of `value` as a varint.
size_t VarintSize(uint64_t value);

}  // namespace millrace

#endif  // MILLRACE_COMMON_WIRE_WIRE_READER_H_
