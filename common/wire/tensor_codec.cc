// Decoding finds the boundaries of the fields and copies all but the bulk bytes, which are a few
// dozen, into one string that the generated code parses. Since WireReader accepts what protobuf
// accepts, and fields keep their order within the string, the outcome is the one that parsing the
// whole message would have had: the last of repeated scalars wins, unknown fields are kept.
#include "common/wire/tensor_codec.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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

constexpr uint32_t kRowsTag = LengthDelimitedTag(Piece::kRowsFieldNumber);
constexpr uint32_t kRowElementsTag = LengthDelimitedTag(Piece::kRowElementsFieldNumber);
constexpr uint32_t kWantedRowsTag = LengthDelimitedTag(PullRequest::kRowsFieldNumber);
// Numbers that a message with rows has for each piece, or slice, besides the rows.
constexpr size_t kOtherNumbers = 16;

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
  std::vector<grpc::Slice> of_rows;
};

// How many numbers there can be in a field, which is what they take when they are parsed: each ends
// with such a byte.
size_t NumbersIn(absl::string_view field) {
  return static_cast<size_t>(std::count_if(field.begin(), field.end(), [](char byte) {
    return static_cast<unsigned char>(byte) < 0x80;
  }));
}

size_t ByteCount(const std::vector<grpc::Slice>& slices) {
  size_t bytes = 0;
  for (const grpc::Slice& slice : slices) bytes += slice.size();
  return bytes;
}

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
      refusal->Update(TakeRows(count, &piece, &elements));
      refusal->Update(CheckPiece(count++, piece, elements));
      if (!refusal->ok()) continue;
      pieces->push_back({piece.slice(), piece.offset(),
                         FloatSlices(std::move(elements.slices), elements.encoding),
                         RowsOf(&piece)});
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

  static std::shared_ptr<const PieceRows> RowsOf(Piece* piece) {
    if (!piece->has_rows()) return nullptr;
    return std::make_shared<const PieceRows>(std::move(*piece->mutable_rows()));
  }

  // Makes the elements those of the rows, where the piece has rows. `index`: as for CheckPiece.
  absl::Status TakeRows(size_t index, Piece* piece, Elements* elements) const {
    const std::string path = absl::StrCat(type_, ".pieces[", index, "].");
    if (too_many_rows_) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, "rows: more than ", kMaxRows, " in a message; send them in several"));
    }
    if (!piece->has_rows()) {
      if (ByteCount(elements->of_rows) == 0) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(path, "row_elements: given without rows"));
    }
    if (ByteCount(elements->slices) > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, "rows: a piece with rows has their elements in row_elements, and ",
                       "nothing in ", FieldOf(elements->encoding).name));
    }
    if (!Encoding::Kind_IsValid(piece->rows().encoding())) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, "rows.encoding: ", static_cast<int>(piece->rows().encoding()),
                       "; must be one of FLOAT32, FLOAT16, BFLOAT16"));
    }
    elements->encoding = piece->rows().encoding();
    elements->slices = std::move(elements->of_rows);
    return absl::OkStatus();
  }

  // `index`: which of the message's pieces it is.
  absl::Status CheckPiece(size_t index, const Piece& piece, const Elements& elements) const {
    if (index >= kMaxPieces) {
      return absl::InvalidArgumentError(absl::StrCat(type_, ".pieces: more than ", kMaxPieces,
                                                     "; send them in several messages"));
    }
    const size_t bytes = ByteCount(elements.slices);
    const size_t width = WidthOf(elements.encoding);
    if (bytes % width == 0) return absl::OkStatus();
    const char* const name = FieldOf(elements.encoding).name;
    return absl::InvalidArgumentError(
        absl::StrCat(type_, ".pieces[", index, "].", piece.has_rows() ? "row_elements" : name, ": ",
                     bytes, " bytes; expected a multiple of ", width, " (",
                     elements.encoding == Encoding::FLOAT32 ? "float32" : name, ")"));
  }

  // Reads up to the limit.
  bool ReadPieceFields(Piece* header, Elements* elements) {
    std::string rest;
    while (!reader_.AtLimit()) {
      uint32_t tag;
      if (!reader_.ReadTag(&tag)) return false;
      const absl::optional<Encoding::Kind> encoding = EncodingOfTag(tag);
      if (!encoding.has_value() && tag != kRowElementsTag) {
        const size_t begin = rest.size();
        if (!reader_.CopyField(tag, kMaxDepth - 1, &rest)) return false;
        if (tag != kRowsTag) continue;
        // Not parsed where there are too many: so the message is known to be refused. A row takes
        // two numbers where it comes with a tag of its own.
        numbers_ += NumbersIn(absl::string_view(rest).substr(begin));
        too_many_rows_ = too_many_rows_ || numbers_ > 2 * kMaxRows + kOtherNumbers * (pieces_ + 1);
        if (too_many_rows_) rest.resize(begin);
        continue;
      }
      size_t length;
      if (!reader_.ReadLength(&length)) return false;
      if (!encoding.has_value()) {
        if (!reader_.TakeSlices(length, &elements->of_rows)) return false;
        continue;
      }
      if (!reader_.TakeSlices(length, &elements->slices)) return false;
      elements->encoding = *encoding;
    }
    if (!header->ParseFromString(rest)) return false;
    ++pieces_;
    rows_ += static_cast<size_t>(header->rows().rows_size());
    too_many_rows_ = too_many_rows_ || rows_ > kMaxRows;
    return true;
  }

  absl::Status Malformed() const {
    return absl::InvalidArgumentError(absl::StrCat("not a valid ", type_,
                                                   ": protobuf cannot parse it (stopped at byte ",
                                                   reader_.position(), ")"));
  }

  WireReader reader_;
  const char* const type_;
  // Of all pieces so far.
  size_t pieces_ = 0;
  size_t rows_ = 0;
  size_t numbers_ = 0;  // In fields of rows.
  bool too_many_rows_ = false;
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
    const std::string rows = piece.rows == nullptr ? "" : piece.rows->SerializeAsString();
    AppendVarint(PieceSize(piece, rows, bytes), &small_);
    if (piece.slice != 0) {
      AppendVarint(VarintTag(Piece::kSliceFieldNumber), &small_);
      AppendVarint(piece.slice, &small_);
    }
    if (piece.offset != 0) {
      AppendVarint(VarintTag(Piece::kOffsetFieldNumber), &small_);
      AppendVarint(piece.offset, &small_);
    }
    if (piece.rows != nullptr) {
      AppendVarint(kRowsTag, &small_);
      AppendVarint(rows.size(), &small_);
      small_ += rows;
    }
    if (bytes == 0) return;
    AppendVarint(piece.rows == nullptr ? TagOf(piece.values.encoding()) : kRowElementsTag, &small_);
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
  static size_t PieceSize(const OutgoingPiece& piece, const std::string& rows, size_t bytes) {
    size_t size = 0;
    if (piece.slice != 0) size += 1 + VarintSize(piece.slice);
    if (piece.offset != 0) size += 1 + VarintSize(piece.offset);
    if (piece.rows != nullptr) size += 1 + VarintSize(rows.size()) + rows.size();
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

absl::StatusOr<PullRequest> DecodePullRequest(const grpc::ByteBuffer& buffer) {
  const auto malformed = [] {
    return absl::InvalidArgumentError("not a PullRequest: protobuf cannot parse it");
  };
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return malformed();
  WireReader reader(slices);
  std::string bytes;
  size_t wanted = 0;  // Slices of which rows are wanted.
  size_t numbers = 0;
  while (!reader.AtLimit()) {
    const size_t begin = bytes.size();
    uint32_t tag;
    if (!reader.ReadTag(&tag) || !reader.CopyField(tag, kMaxDepth, &bytes)) return malformed();
    if (tag != kWantedRowsTag) continue;
    numbers += NumbersIn(absl::string_view(bytes).substr(begin));
    if (++wanted <= kMaxPieces && numbers <= 2 * kMaxRows + kOtherNumbers * wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat("PullRequest.rows: far more than ", kMaxRows,
                                                   " rows, or ", kMaxPieces, " slices"));
  }
  PullRequest request;
  if (!request.ParseFromString(bytes)) return malformed();
  return request;
}

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
