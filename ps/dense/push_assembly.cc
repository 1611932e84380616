#include "ps/dense/push_assembly.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "common/wire/encoding.h"
#include "common/wire/piece_elements.h"
#include "common/wire/rows.h"
#include "glog/logging.h"
#include "ps/dense/finite.h"

namespace millrace::ps {
namespace {

using Range = std::pair<uint64_t, uint64_t>;

// Where the number with this index stands, counted from the piece's first element.
uint64_t PlaceOf(const BlockLayout& layout, const WirePiece& piece, uint64_t index) {
  if (piece.rows == nullptr) return index;
  const ElementRange range = layout.InVariable(piece.slice, piece.offset, piece.elements());
  for (const ElementRange& run : RunsOf(RowsOf(*piece.rows), piece.rows->width(), range)) {
    if (index < run.count) return run.begin + index;
    index -= run.count;
  }
  LOG(FATAL) << "the piece's rows have fewer elements than it has numbers";
}

absl::Status CheckFinite(const ShardSpec& spec, const BlockLayout& layout, const WirePiece& piece) {
  const auto bad = FindNotFinite(piece.data);
  if (!bad.has_value()) return absl::OkStatus();
  const ShardSlice& slice = spec.slices(static_cast<int>(piece.slice));
  return absl::InvalidArgumentError(absl::StrCat(
      "the ", slice.update().has_moving_average() ? "statistic" : "gradient", " of variable '",
      PrintableName(slice.variable_name()), "' has ", bad->value, " at element ",
      slice.slice().offset() + piece.offset + PlaceOf(layout, piece, bad->index),
      "; must be finite"));
}

// Whether a piece comes as the shard was told that it must. See ShardSpec.wire.
absl::Status CheckEncoding(const ShardSpec& spec, const WirePiece& piece) {
  if (!spec.has_wire()) return absl::OkStatus();
  const ShardSlice& slice = spec.slices(static_cast<int>(piece.slice));
  const bool is_statistic = slice.update().has_moving_average();
  const Encoding::Kind wanted = is_statistic ? Encoding::FLOAT32 : spec.wire();
  const Encoding::Kind came = piece.data.encoding();
  if (came == wanted) return absl::OkStatus();
  const bool by_rows = piece.rows != nullptr;
  return absl::InvalidArgumentError(absl::StrCat(
      "piece.", by_rows ? "rows.encoding" : FieldOf(came).name, ": ", Encoding::Kind_Name(came),
      ", for the ", is_statistic ? "statistic" : "gradient", " of variable '",
      PrintableName(slice.variable_name()), "'; must be ", Encoding::Kind_Name(wanted),
      by_rows ? "" : absl::StrCat(", in piece.", FieldOf(wanted).name),
      is_statistic ? ", as statistics are" : ", as precision.wire of the job says",
      ": a synchronous job's bits would depend on which worker has a step. Train it with workers "
      "that do so, or set precision.wire to what they do, or synchronous.allow_mixed_workers"));
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

uint64_t MemoryBytes(const WirePiece& piece) {
  const uint64_t rows = piece.rows == nullptr ? 0 : static_cast<uint64_t>(piece.rows->rows_size());
  return piece.data.size() * sizeof(float) + rows * sizeof(uint64_t) + kPieceOverhead;
}

// Whether the piece begins and ends where blocks do.
bool IsWholeBlocks(const BlockLayout& layout, const WirePiece& piece) {
  const uint64_t last = piece.offset + piece.elements() - 1;
  const BlockLayout::Run end = layout.FirstRun(piece.slice, last, 1);
  return layout.FirstRun(piece.slice, piece.offset, 1).offset == 0 &&
         end.offset + 1 == layout.blocks()[end.block].elements;
}

// A piece with rows as one with all elements: zeros, and the rows at their places.
WirePiece Spread(const BlockLayout& layout, const WirePiece& piece) {
  const size_t count = piece.elements();
  const ElementRange range = layout.InVariable(piece.slice, piece.offset, count);
  std::vector<float> given(piece.data.size());
  piece.data.CopyTo(absl::MakeSpan(given));
  std::unique_ptr<float[]> floats(new float[count]());
  CopyToRuns(given.data(), RunsOf(RowsOf(*piece.rows), piece.rows->width(), range), sizeof(float),
             floats.get());
  return {piece.slice, piece.offset, FloatSlices(std::move(floats), count)};
}

// Gathered pieces have all elements.
bool IsToSpread(bool gathered, const WirePiece& piece) { return gathered && piece.rows != nullptr; }

bool IsToWiden(const BlockLayout& layout, bool gathered, const WirePiece& piece) {
  if (IsToSpread(gathered, piece)) return true;
  return piece.data.encoding() != Encoding::FLOAT32 && (!gathered || IsWholeBlocks(layout, piece));
}

absl::Status CheckRows(const ShardSpec& spec, const BlockLayout& layout, const WirePiece& piece) {
  if (piece.rows == nullptr) return absl::OkStatus();
  const ShardSlice& slice = spec.slices(static_cast<int>(piece.slice));
  const std::string where =
      absl::StrCat("piece at offset ", piece.offset, " of slice ", piece.slice, ": ");
  if (slice.update().has_moving_average()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "rows: of a statistic, which has a value for each element; variable '",
                     PrintableName(slice.variable_name()), "' is a moving average"));
  }
  if (piece.offset % kBlockElements != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, "offset: ", piece.offset,
                                                   "; a piece with rows begins at a multiple of ",
                                                   kBlockElements));
  }
  if (!IsWholeBlocks(layout, piece)) {
    return absl::InvalidArgumentError(absl::StrCat(where, "rows.count: ", piece.elements(),
                                                   "; a piece with rows ends at a ", "multiple of ",
                                                   kBlockElements, " or with its slice"));
  }
  const ElementRange range = layout.InVariable(piece.slice, piece.offset, piece.elements());
  const absl::StatusOr<uint64_t> given =
      CountRowElements(RowsOf(*piece.rows), piece.rows->width(), range);
  if (!given.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(where, "rows.", given.status().message()));
  }
  if (*given == piece.data.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, "row_elements: ", piece.data.size(),
                                                 " numbers; the rows have ", *given,
                                                 " elements in the piece"));
}

// A block's piece, and where to write its elements.
WirePiece MakeBlockPiece(const BlockLayout::BlockPlace& place, float** data) {
  std::unique_ptr<float[]> floats(new float[place.elements]);
  *data = floats.get();
  return {place.slice, place.offset, FloatSlices(std::move(floats), place.elements)};
}

// Fills in all but the pieces themselves.
absl::Status Place(const BlockLayout& layout, const std::vector<WirePiece>& pieces,
                   PlacedPieces* placed) {
  placed->ranges.reserve(pieces.size());
  for (const WirePiece& piece : pieces) {
    const uint64_t count = piece.elements();
    if (count == 0 && piece.rows != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "piece at offset ", piece.offset, " of slice ", piece.slice,
          ": rows.count: 0; must be at least 1, the elements that the piece stands for"));
    }
    if (count == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece at offset ", piece.offset, " of slice ", piece.slice,
                       " has no data as FLOAT32, FLOAT16 or BFLOAT16; leave it out, or send its "
                       "numbers as one of these"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t begin,
                              layout.Locate(piece.slice, piece.offset, count));
    placed->ranges.emplace_back(begin, begin + count);
    placed->memory_bytes += MemoryBytes(piece);
    placed->whole_blocks = placed->whole_blocks && IsWholeBlocks(layout, piece);
    placed->plain =
        placed->plain && piece.data.encoding() == Encoding::FLOAT32 && piece.rows == nullptr;
  }
  return Join(&placed->ranges);
}

}  // namespace

absl::StatusOr<PlacedPieces> PlacePieces(const ShardSpec& spec, const BlockLayout& layout,
                                         std::vector<WirePiece> pieces) {
  PlacedPieces placed;
  MILLRACE_RETURN_IF_ERROR(Place(layout, pieces, &placed));
  for (const WirePiece& piece : pieces) {
    MILLRACE_RETURN_IF_ERROR(CheckEncoding(spec, piece));
    MILLRACE_RETURN_IF_ERROR(CheckRows(spec, layout, piece));
    MILLRACE_RETURN_IF_ERROR(CheckFinite(spec, layout, piece));
  }
  placed.pieces = std::make_shared<const std::vector<WirePiece>>(std::move(pieces));
  return placed;
}

void WidenKept(const BlockLayout& layout, bool gathered, PlacedPieces* message) {
  auto widened = std::make_shared<std::vector<WirePiece>>(*message->pieces);
  message->memory_bytes = 0;
  for (WirePiece& piece : *widened) {
    if (IsToSpread(gathered, piece)) {
      piece = Spread(layout, piece);
    } else if (IsToWiden(layout, gathered, piece)) {
      piece.data = piece.data.Widened();
    }
    message->memory_bytes += MemoryBytes(piece);
  }
  message->pieces = std::move(widened);
}

uint64_t BytesToWiden(const BlockLayout& layout, bool gathered, const PlacedPieces& message) {
  uint64_t bytes = 0;
  for (const WirePiece& piece : *message.pieces) {
    if (!IsToWiden(layout, gathered, piece)) continue;
    bytes += IsToSpread(gathered, piece) ? piece.elements() * sizeof(float) + kPieceOverhead
                                         : MemoryBytes(piece);
  }
  return bytes;
}

absl::StatusOr<bool> PushAssembly::Arrive(uint64_t stream, const PlacedPieces& message) {
  if (!carried_by(stream)) streams_.push_back(stream);
  const auto arrived = [this](const Range& range) {
    return arrived_.Contains(range.first, range.second);
  };
  const std::vector<Range>& ranges = message.ranges;
  if (!ranges.empty() && std::all_of(ranges.begin(), ranges.end(), arrived)) {
    return false;  // A network has delivered the message twice.
  }
  for (const Range& range : ranges) {
    if (!arrived_.Insert(range.first, range.second)) return Overlap(range);
  }
  return true;
}

absl::Status PushAssembly::Add(uint64_t stream, PlacedPieces message, bool keep) {
  MILLRACE_ASSIGN_OR_RETURN(const bool is_new, Arrive(stream, message));
  if (is_new && keep) pieces_.push_back(std::move(message.pieces));
  return absl::OkStatus();
}

absl::Status PushAssembly::Add(const BlockLayout& layout, uint64_t stream, PushPieces pieces,
                               bool keep) {
  PlacedPieces placed;
  MILLRACE_RETURN_IF_ERROR(Place(layout, *pieces, &placed));
  placed.pieces = std::move(pieces);
  return Add(stream, std::move(placed), keep);
}

absl::Status PushAssembly::Gather(const BlockLayout& layout, uint64_t stream, PlacedPieces message,
                                  const CountPieces& count) {
  if (message.whole_blocks) {
    message.pieces = count(std::move(message.pieces), message.memory_bytes);
    return Add(stream, std::move(message), /*keep=*/true);
  }
  const uint64_t bytes = BytesToGather(this, layout, message);
  MILLRACE_ASSIGN_OR_RETURN(const bool is_new, Arrive(stream, message));
  if (!is_new) return absl::OkStatus();
  auto kept = std::make_shared<std::vector<WirePiece>>();
  for (const WirePiece& piece : *message.pieces) {
    if (IsWholeBlocks(layout, piece)) {
      kept->push_back(piece);
    } else {
      CopyToBlocks(layout, piece, kept.get());
    }
  }
  if (!kept->empty()) pieces_.push_back(count(std::move(kept), bytes));
  return absl::OkStatus();
}

// Each element comes once, so a block that a piece has a part of comes in parts altogether.
void PushAssembly::CopyToBlocks(const BlockLayout& layout, const WirePiece& piece,
                                std::vector<WirePiece>* pieces) {
  const Encoding::Kind encoding = piece.data.encoding();
  piece.data.ForEachRun([&](size_t offset, const char* bytes, size_t count) {
    while (count > 0) {
      const BlockLayout::Run run = layout.FirstRun(piece.slice, piece.offset + offset, count);
      float*& data = gathered_[run.block];
      if (data == nullptr) pieces->push_back(MakeBlockPiece(layout.blocks()[run.block], &data));
      Widen(encoding, bytes, absl::MakeSpan(data + run.offset, run.count));
      offset += run.count;
      bytes += run.count * WidthOf(encoding);
      count -= run.count;
    }
  });
}

uint64_t PushAssembly::BytesToGather(const PushAssembly* push, const BlockLayout& layout,
                                     const PlacedPieces& message) {
  if (message.whole_blocks) return message.memory_bytes;
  uint64_t bytes = 0;
  absl::flat_hash_set<size_t> fresh;  // Blocks that are begun.
  for (const WirePiece& piece : *message.pieces) {
    if (IsWholeBlocks(layout, piece)) {
      bytes += MemoryBytes(piece);
      continue;
    }
    const size_t first = layout.FirstRun(piece.slice, piece.offset, 1).block;
    const uint64_t last_element = piece.offset + piece.data.size() - 1;
    const size_t last = layout.FirstRun(piece.slice, last_element, 1).block;
    for (size_t block = first; block <= last; ++block) {
      if (push != nullptr && push->gathered_.contains(block)) continue;
      if (!fresh.insert(block).second) continue;
      bytes += layout.blocks()[block].elements * sizeof(float) + kPieceOverhead;
    }
  }
  return bytes;
}

void PushAssembly::Count(const CountPieces& count) {
  for (PushPieces& message : pieces_) {
    uint64_t bytes = 0;
    for (const WirePiece& piece : *message) bytes += MemoryBytes(piece);
    message = count(std::move(message), bytes);
  }
}

bool PushAssembly::carried_by(uint64_t stream) const {
  return std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
}

uint64_t ElementCount(const PushPieces& pieces) {
  uint64_t count = 0;
  for (const WirePiece& piece : *pieces) count += piece.elements();
  return count;
}

}  // namespace millrace::ps
