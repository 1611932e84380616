// Decoding finds the boundaries of the fields and copies all but the bulk bytes, which are a few
// dozen, into one string that the generated code parses. Since WireReader accepts what protobuf
// accepts, and fields keep their order within the string, the outcome is the one that parsing the
// whole message would have had: the last of repeated scalars wins, unknown fields are kept.
#include "common/wire/tensor_codec.h"

#include <bit>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/status_macros.h"
#include "common/wire/piece_elements.h"
#include "common/wire/wire_reader.h"
#include "glog/logging.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the elements of pieces are sent as they lie in memory");

constexpr uint32_t LengthDelimitedTag(uint32_t number) { return number << 3 | 2; }
constexpr uint32_t VarintTag(uint32_t number) { return number << 3; }

constexpr uint32_t kPiecesTag = LengthDelimitedTag(PushRequest::kPiecesFieldNumber);
static_assert(LengthDelimitedTag(PullResponse::kPiecesFieldNumber) == kPiecesTag);

// Protobuf's limit on the nesting of messages and groups.
constexpr int kMaxDepth = 100;

// Values up to this size are copied on the way out: cheaper than to count references to them.
constexpr size_t kMaxCopiedBytes = 1024;

uint32_t TagOf(Encoding::Kind encoding) {
  return LengthDelimitedTag(static_cast<uint32_t>(FieldOf(encoding).number));
}

// Of a field of a Piece; nullopt: it has no elements.
absl::optional<Encoding::Kind> EncodingOfTag(uint32_t tag) {
  const uint32_t number = tag >> 3;
  return tag == LengthDelimitedTag(number) ? EncodingOfField(static_cast<int>(number))
                                           : absl::nullopt;
}

// The elements of a piece: of the fields that it has the last one.
struct Elements {
  Encoding::Kind encoding = Encoding::FLOAT32;
  std::vector<grpc::Slice> slices;
};

// Reads one message. Header: PushRequest or PullResponse.
template <typename Header>
class Decoder {
 public:
  Decoder(const std::vector<grpc::Slice>& slices, const char* type)
      : reader_(slices), type_(type) {}

  // `refusal`: as in DecodedPush.
  absl::Status Read(Header* header, std::vector<WirePiece>* pieces, absl::Status* refusal) {
    std::string rest;
    size_t count = 0;
    while (!reader_.AtLimit()) {
      uint32_t tag;
      if (!reader_.ReadTag(&tag)) return Malformed();
      if (tag != kPiecesTag) {
        if (!reader_.CopyField(tag, kMaxDepth, &rest)) return Malformed();
        continue;
      }
      Piece piece;
      Elements elements;
      if (!ReadPiece(&piece, &elements)) return Malformed();
      refusal->Update(CheckPiece(count++, elements));
      if (!refusal->ok()) continue;
      pieces->push_back({piece.slice(), piece.offset(),
                         FloatSlices(std::move(elements.slices), elements.encoding)});
    }
    if (!refusal->ok()) pieces->clear();
    if (!header->ParseFromString(rest)) return Malformed();
    return absl::OkStatus();
  }

 private:
  // Reads what follows the tag.
  bool ReadPiece(Piece* header, Elements* elements) {
    size_t length;
    if (!reader_.ReadLength(&length)) return false;
    const size_t limit = reader_.PushLimit(length);
    if (!ReadPieceFields(header, elements)) return false;
    reader_.SetLimit(limit);
    return true;
  }

  // `index`: which of the message's pieces it is.
  absl::Status CheckPiece(size_t index, const Elements& elements) const {
    if (index >= kMaxPieces) {
      return absl::InvalidArgumentError(absl::StrCat(type_, ".pieces: more than ", kMaxPieces,
                                                     "; send them in several messages"));
    }
    size_t bytes = 0;
    for (const grpc::Slice& slice : elements.slices) bytes += slice.size();
    const size_t width = WidthOf(elements.encoding);
    if (bytes % width == 0) return absl::OkStatus();
    const char* const name = FieldOf(elements.encoding).name;
    return absl::InvalidArgumentError(absl::StrCat(
        type_, ".pieces[", index, "].", name, ": ", bytes, " bytes; expected a multiple of ", width,
        " (", elements.encoding == Encoding::FLOAT32 ? "float32" : name, ")"));
  }

  // Reads up to the limit.
  bool ReadPieceFields(Piece* header, Elements* elements) {
    std::string rest;
    while (!reader_.AtLimit()) {
      uint32_t tag;
      if (!reader_.ReadTag(&tag)) return false;
      const absl::optional<Encoding::Kind> encoding = EncodingOfTag(tag);
      if (!encoding.has_value()) {
        if (!reader_.CopyField(tag, kMaxDepth - 1, &rest)) return false;
        continue;
      }
      size_t length;
      if (!reader_.ReadLength(&length)) return false;
      if (!reader_.TakeSlices(length, &elements->slices)) return false;
      elements->encoding = *encoding;
    }
    return header->ParseFromString(rest);
  }

  absl::Status Malformed() const {
    return absl::InvalidArgumentError(absl::StrCat("not a valid ", type_,
                                                   ": protobuf cannot parse it (stopped at byte ",
                                                   reader_.position(), ")"));
  }

  WireReader reader_;
  const char* const type_;
};

// Decoded: DecodedPush or DecodedPull.
template <typename Decoded>
absl::StatusOr<Decoded> Decode(const grpc::ByteBuffer& buffer, const char* type,
                               absl::Status* refusal) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) {
    return absl::InvalidArgumentError(absl::StrCat("not a ", type, ": there is no message"));
  }
  Decoded decoded;
  Decoder<decltype(decoded.header)> decoder(slices, type);
  MILLRACE_RETURN_IF_ERROR(decoder.Read(&decoded.header, &decoded.pieces, refusal));
  return decoded;
}

// Gathers the slices of a message.
class Encoder {
 public:
  explicit Encoder(std::string header) : small_(std::move(header)) {}

  void Add(const OutgoingPiece& piece) {
    const size_t bytes = piece.values.byte_size();
    AppendVarint(kPiecesTag, &small_);
    AppendVarint(PieceSize(piece, bytes), &small_);
    if (piece.slice != 0) {
      AppendVarint(VarintTag(Piece::kSliceFieldNumber), &small_);
      AppendVarint(piece.slice, &small_);
    }
    if (piece.offset != 0) {
      AppendVarint(VarintTag(Piece::kOffsetFieldNumber), &small_);
      AppendVarint(piece.offset, &small_);
    }
    if (bytes == 0) return;
    AppendVarint(TagOf(piece.values.encoding()), &small_);
    AppendVarint(bytes, &small_);
    if (bytes <= kMaxCopiedBytes) {
      small_.append(piece.values.bytes(), bytes);
      return;
    }
    FlushSmall();
    slices_.push_back(ReferTo(piece, bytes));
  }

  grpc::ByteBuffer Finish() {
    FlushSmall();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  static size_t PieceSize(const OutgoingPiece& piece, size_t bytes) {
    size_t size = 0;
    if (piece.slice != 0) size += 1 + VarintSize(piece.slice);
    if (piece.offset != 0) size += 1 + VarintSize(piece.offset);
    if (bytes != 0) size += 1 + VarintSize(bytes) + bytes;
    return size;
  }

  static grpc::Slice ReferTo(const OutgoingPiece& piece, size_t bytes) {
    using Owner = std::shared_ptr<const void>;
    return grpc::Slice(
        const_cast<char*>(piece.values.bytes()), bytes,
        [](void* owner) { delete static_cast<Owner*>(owner); }, new Owner(piece.owner));
  }

  void FlushSmall() {
    if (small_.empty()) return;
    slices_.emplace_back(small_);
    small_.clear();
  }

  std::string small_;  // What comes before the next bulk slice.
  std::vector<grpc::Slice> slices_;
};

template <typename Header>
grpc::ByteBuffer Encode(const Header& header, absl::Span<const OutgoingPiece> pieces) {
  CHECK_EQ(header.pieces_size(), 0);
  Encoder encoder(header.SerializeAsString());
  for (const OutgoingPiece& piece : pieces) encoder.Add(piece);
  return encoder.Finish();
}

}  // namespace

absl::StatusOr<DecodedPush> DecodePush(const grpc::ByteBuffer& buffer) {
  absl::Status refusal;
  MILLRACE_ASSIGN_OR_RETURN(DecodedPush decoded,
                            Decode<DecodedPush>(buffer, "PushRequest", &refusal));
  decoded.refusal = std::move(refusal);
  return decoded;
}

absl::StatusOr<DecodedPull> DecodePull(const grpc::ByteBuffer& buffer) {
  absl::Status refusal;
  MILLRACE_ASSIGN_OR_RETURN(DecodedPull decoded,
                            Decode<DecodedPull>(buffer, "PullResponse", &refusal));
  MILLRACE_RETURN_IF_ERROR(refusal);
  return decoded;
}

grpc::ByteBuffer EncodePush(const PushRequest& header, absl::Span<const OutgoingPiece> pieces) {
  return Encode(header, pieces);
}

grpc::ByteBuffer EncodePull(const PullResponse& header, absl::Span<const OutgoingPiece> pieces) {
  return Encode(header, pieces);
}

}  // namespace millrace
