#include "worker/parameters/row_pieces.h"

#include <algorithm>
#include <utility>

#include "common/wire/rows.h"
#include "glog/logging.h"
#include "worker/parameters/variable_rows.h"

namespace millrace::worker {
namespace {

// What a piece is to stand for.
struct Stretch {
  uint64_t offset = 0;  // In the slice.
  uint64_t count = 0;
  FoundRows found;
};

bool MayJoin(const Stretch& before, const Stretch& block) {
  return before.found.rows.empty() && block.found.rows.empty() &&
         before.count + block.count <= kMaxBlocksTogether * kBlockElements;
}

std::vector<Stretch> Divide(const Slice& slice, const VariableRows& rows) {
  std::vector<Stretch> stretches;
  for (uint64_t offset = 0; offset < slice.length(); offset += kBlockElements) {
    const uint64_t count = std::min<uint64_t>(kBlockElements, slice.length() - offset);
    const Stretch block = {offset, count, FindRows(rows, {slice.offset() + offset, count})};
    if (!stretches.empty() && MayJoin(stretches.back(), block)) {
      stretches.back().count += count;
    } else {
      stretches.push_back(block);
    }
  }
  return stretches;
}

std::shared_ptr<const PieceRows> MakePieceRows(const Stretch& stretch, uint64_t width,
                                               Encoding::Kind encoding) {
  auto rows = std::make_shared<PieceRows>();
  rows->set_width(width);
  rows->mutable_rows()->Add(stretch.found.rows.begin(), stretch.found.rows.end());
  rows->set_count(stretch.count);
  rows->set_encoding(encoding);
  return rows;
}

// Bytes that are 0 are the number 0 in every encoding.
std::shared_ptr<std::vector<char>> ZeroBytes(size_t size) {
  return std::make_shared<std::vector<char>>(size);
}

// Zeros, and the values of the piece, which are of one block at most, at their places.
std::shared_ptr<std::vector<char>> Scatter(const OutgoingPiece& piece,
                                           const std::vector<ElementRange>& runs) {
  const size_t width = WidthOf(piece.values.encoding());
  auto bytes = ZeroBytes(piece.rows->count() * width);
  CopyToRuns(piece.values.bytes(), runs, width, bytes->data());
  return bytes;
}

// Of a piece with rows that gives some.
OutgoingPiece WithZeros(const OutgoingPiece& piece, const Slice& slice) {
  const ElementRange range = {slice.offset() + piece.offset, piece.rows->count()};
  const auto bytes = Scatter(piece, RunsOf(piece.rows->rows(), piece.rows->width(), range));
  const EncodedNumbers values(piece.values.encoding(), bytes->data(), range.count);
  return {piece.slice, piece.offset, values, bytes};
}

}  // namespace

std::vector<OutgoingPiece> MakeRowPieces(const Slice& slice, uint32_t index,
                                         const VariableRows& rows, EncodedNumbers gradient,
                                         const std::shared_ptr<const void>& owner) {
  std::vector<OutgoingPiece> pieces;
  for (const Stretch& stretch : Divide(slice, rows)) {
    const ElementRange& elements = stretch.found.elements;
    pieces.push_back({index, stretch.offset, gradient.subspan(elements.begin, elements.count),
                      owner, MakePieceRows(stretch, rows.width, gradient.encoding())});
  }
  return pieces;
}

std::vector<OutgoingPiece> WithoutRows(absl::Span<const OutgoingPiece> pieces,
                                       const std::vector<Slice>& slices) {
  std::shared_ptr<std::vector<char>> zeros;  // A block of them, for all.
  std::vector<OutgoingPiece> result;
  for (const OutgoingPiece& piece : pieces) {
    if (piece.rows == nullptr || !piece.rows->rows().empty()) {
      result.push_back(piece.rows == nullptr ? piece : WithZeros(piece, slices[piece.slice]));
      continue;
    }
    if (zeros == nullptr) zeros = ZeroBytes(kBlockElements * sizeof(float));
    for (uint64_t done = 0; done < piece.rows->count(); done += kBlockElements) {
      const size_t count = std::min<uint64_t>(kBlockElements, piece.rows->count() - done);
      const EncodedNumbers values(piece.values.encoding(), zeros->data(), count);
      result.push_back({piece.slice, piece.offset + done, values, zeros});
    }
  }
  return result;
}

}  // namespace millrace::worker
