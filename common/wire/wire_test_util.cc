#include "common/wire/wire_test_util.h"

#include <algorithm>

#include "common/wire/encoding.h"
#include "common/wire/piece_elements.h"

namespace millrace::testing {
namespace {

bool HasElementsInPlace(const Piece& piece) {
  if (!piece.has_rows()) return piece.row_elements().empty();
  if (!Encoding::Kind_IsValid(piece.rows().encoding())) return false;
  return piece.data().empty() && piece.float16().empty() && piece.bfloat16().empty();
}

}  // namespace

bool HasUsablePieces(const PushRequest& push) {
  return std::all_of(push.pieces().begin(), push.pieces().end(), [](const Piece& piece) {
    return HasElementsInPlace(piece) && ElementsOf(piece).size() % WidthOf(EncodingOf(piece)) == 0;
  });
}

std::string Bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::vector<grpc::Slice> CutAt(const std::string& bytes, const std::vector<size_t>& cuts) {
  std::vector<grpc::Slice> slices;
  size_t begin = 0;
  for (size_t cut : cuts) {
    slices.emplace_back(bytes.data() + begin, cut - begin);
    begin = cut;
  }
  slices.emplace_back(bytes.data() + begin, bytes.size() - begin);
  return slices;
}

std::vector<grpc::Slice> CutInto(const std::string& bytes, size_t size) {
  std::vector<size_t> cuts;
  for (size_t cut = size; cut < bytes.size(); cut += size) cuts.push_back(cut);
  return CutAt(bytes, cuts);
}

grpc::ByteBuffer ToBuffer(const std::vector<grpc::Slice>& slices) {
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  return bytes;
}

}  // namespace millrace::testing
