// PushRequest and PullResponse, encoded and decoded around their bulk bytes.
//
// The messages are ordinary protobuf (protos/parameter_server.proto), and any protobuf library
// reads and writes them. Here the elements of a Piece are spliced in and out as grpc::Slices: block
// memory goes to the socket and received slices go to the optimizer, neither copied nor flattened.
// Everything but the bulk bytes is parsed by the generated code.
#ifndef MILLRACE_COMMON_WIRE_TENSOR_CODEC_H_
#define MILLRACE_COMMON_WIRE_TENSOR_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/encoding.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "protos/parameter_server.pb.h"

namespace millrace {

// Elements of a block (1 MiB of values). A slice of a variable is divided into blocks from its
// first element on; pieces that keep to this grid are the fastest, others are as good.
inline constexpr size_t kBlockElements = size_t{1} << 18;

// The bytes of `count` numbers, in order, over one or more slices. A number may straddle two slices
// and need not be aligned. Holds references to the slices; copies are cheap.
class FloatSlices {
 public:
  FloatSlices() = default;
  // REQUIRES: the sizes of `slices` add up to a multiple of WidthOf(encoding).
  explicit FloatSlices(std::vector<grpc::Slice> slices,
                       Encoding::Kind encoding = Encoding::FLOAT32);

  // FLOAT32 numbers in memory of their own, `size` of them.
  FloatSlices(std::unique_ptr<float[]> floats, size_t size);

  Encoding::Kind encoding() const { return encoding_; }
  size_t size() const { return size_; }  // In numbers.

  // Calls `visit(offset, bytes, count)` for consecutive runs of numbers that lie together in
  // memory: `count` numbers from number `offset` on start at `bytes`, encoded (unaligned: read
  // through memcpy). Numbers that straddle slices come alone, from a temporary.
  void ForEachRun(
      const std::function<void(size_t offset, const char* bytes, size_t count)>& visit) const;

  // As floats. REQUIRES: destination.size() == size().
  void CopyTo(absl::Span<float> destination) const;

  // The same numbers as FLOAT32: itself, or in memory of its own.
  FloatSlices Widened() const;

 private:
  Encoding::Kind encoding_ = Encoding::FLOAT32;
  std::vector<grpc::Slice> slices_;
  size_t size_ = 0;
};

// A Piece with its bytes beside it.
struct WirePiece {
  uint32_t slice = 0;
  uint64_t offset = 0;
  FloatSlices data;
  // Not null: `data` is that of the rows. They are not checked (see rows.h).
  std::shared_ptr<const PieceRows> rows = nullptr;

  // How many elements it stands for.
  uint64_t elements() const { return rows == nullptr ? data.size() : rows->count(); }
};

struct DecodedPush {
  PushRequest header;             // `pieces` is empty.
  std::vector<WirePiece> pieces;  // As they came.
  // Not OK: INVALID_ARGUMENT, why the pieces cannot be used (a length of data that is no multiple
  // of an element's, rows beside data or in no encoding, more than kMaxPieces or kMaxRows);
  // `pieces` is empty then, and the header is good.
  absl::Status refusal;
};

struct DecodedPull {
  PullResponse header;            // `pieces` is empty.
  std::vector<WirePiece> pieces;  // As they came.
};

// Of a message: far more than anybody sends, since a decoded piece takes more memory than the few
// bytes that it may be on the wire.
inline constexpr size_t kMaxPieces = size_t{1} << 16;
// Rows of all pieces of a message, or of a pull's request.
inline constexpr size_t kMaxRows = kBlockElements;

// INVALID_ARGUMENT: not a message of the type; with DecodePull also what DecodedPush::refusal says,
// and with DecodePullRequest that there are far more rows than there may be, which take more memory
// once they are parsed than in the message.
// Accepts every valid encoding of the message (any field order, unknown fields).
absl::StatusOr<PullRequest> DecodePullRequest(const grpc::ByteBuffer& buffer);
absl::StatusOr<DecodedPush> DecodePush(const grpc::ByteBuffer& buffer);
absl::StatusOr<DecodedPull> DecodePull(const grpc::ByteBuffer& buffer);

// A piece to send: `values` stay in place and unchanged while `owner` is held, which is until gRPC
// has no more use for them.
struct OutgoingPiece {
  uint32_t slice = 0;
  uint64_t offset = 0;
  EncodedNumbers values;
  std::shared_ptr<const void> owner;
  // Not null: `values` are those of the rows, whose `encoding` is filled in.
  std::shared_ptr<const PieceRows> rows = nullptr;
};

// REQUIRES: header.pieces() is empty.
grpc::ByteBuffer EncodePush(const PushRequest& header, absl::Span<const OutgoingPiece> pieces);
grpc::ByteBuffer EncodePull(const PullResponse& header, absl::Span<const OutgoingPiece> pieces);

}  // namespace millrace

#endif  // MILLRACE_COMMON_WIRE_TENSOR_CODEC_H_
