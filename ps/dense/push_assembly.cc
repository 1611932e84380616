#include "ps/dense/push_assembly.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "ps/dense/finite.h"

namespace millrace::ps {
namespace {

using Range = std::pair<uint64_t, uint64_t>;

absl::Status CheckFinite(const ShardSpec& spec, const WirePiece& piece) {
  const auto bad = FindNotFinite(piece.data);
  if (!bad.has_value()) return absl::OkStatus();
  const ShardSlice& slice = spec.slices(static_cast<int>(piece.slice));
  return absl::InvalidArgumentError(absl::StrCat(
      "the gradient of variable '", PrintableName(slice.variable_name()), "' has ", bad->value,
      " at element ", slice.slice().offset() + piece.offset + bad->index, "; must be finite"));
}

absl::Status Overlap(const Range& range) {
  return absl::InvalidArgumentError(absl::StrCat(
      "elements ", range.first, " to ", range.second - 1,
      " of the shard: a piece overlaps an earlier one of the push; each element comes once"));
}

// Puts the ranges in order, and joins those that touch.
absl::Status Join(std::vector<Range>* ranges) {
  if (!std::is_sorted(ranges->begin(), ranges->end())) std::sort(ranges->begin(), ranges->end());
  std::vector<Range> joined;
  for (const Range& range : *ranges) {
    if (!joined.empty() && range.first < joined.back().second) return Overlap(range);
    if (!joined.empty() && range.first == joined.back().second) {
      joined.back().second = range.second;
    } else {
      joined.push_back(range);
    }
  }
  if (joined.size() > kMaxRanges) {
    return absl::InvalidArgumentError(
        absl::StrCat("pieces: they are ", joined.size(), " separate ranges of elements; a message ",
                     "has at most ", kMaxRanges, ": send neighbours together"));
  }
  *ranges = std::move(joined);
  return absl::OkStatus();
}

// Fills in all but the pieces themselves.
absl::Status Place(const BlockLayout& layout, const std::vector<WirePiece>& pieces,
                   PlacedPieces* placed) {
  placed->ranges.reserve(pieces.size());
  for (const WirePiece& piece : pieces) {
    const uint64_t count = piece.data.size();
    if (count == 0) {
      return absl::InvalidArgumentError(absl::StrCat("piece at offset ", piece.offset, " of slice ",
                                                     piece.slice, " has no data; leave it out"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t begin,
                              layout.Locate(piece.slice, piece.offset, count));
    placed->ranges.emplace_back(begin, begin + count);
    placed->memory_bytes += count * sizeof(float) + kPieceOverhead;
  }
  return Join(&placed->ranges);
}

}  // namespace

absl::StatusOr<PlacedPieces> PlacePieces(const ShardSpec& spec, const BlockLayout& layout,
                                         std::vector<WirePiece> pieces) {
  PlacedPieces placed;
  MILLRACE_RETURN_IF_ERROR(Place(layout, pieces, &placed));
  for (const WirePiece& piece : pieces) MILLRACE_RETURN_IF_ERROR(CheckFinite(spec, piece));
  placed.pieces = std::make_shared<const std::vector<WirePiece>>(std::move(pieces));
  return placed;
}

absl::Status PushAssembly::Add(uint64_t stream, PlacedPieces message, bool keep) {
  if (!carried_by(stream)) streams_.push_back(stream);
  const auto arrived = [this](const Range& range) {
    return arrived_.Contains(range.first, range.second);
  };
  const std::vector<Range>& ranges = message.ranges;
  if (!ranges.empty() && std::all_of(ranges.begin(), ranges.end(), arrived)) {
    return absl::OkStatus();  // A network has delivered the message twice.
  }
  for (const Range& range : message.ranges) {
    if (!arrived_.Insert(range.first, range.second)) return Overlap(range);
  }
  if (keep && !message.pieces->empty()) pieces_.push_back(std::move(message.pieces));
  return absl::OkStatus();
}

absl::Status PushAssembly::Add(const BlockLayout& layout, uint64_t stream, PushPieces pieces,
                               bool keep) {
  PlacedPieces placed;
  MILLRACE_RETURN_IF_ERROR(Place(layout, *pieces, &placed));
  placed.pieces = std::move(pieces);
  return Add(stream, std::move(placed), keep);
}

bool PushAssembly::carried_by(uint64_t stream) const {
  return std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
}

uint64_t ElementCount(const PushPieces& pieces) {
  uint64_t count = 0;
  for (const WirePiece& piece : *pieces) count += piece.data.size();
  return count;
}

}  // namespace millrace::ps
