// A version that several workers pull is rounded for each of them: it takes a fraction of the time
// that sending it takes, and what is rounded would have to be kept beside each state.
#include "ps/service/pull_pieces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "common/wire/rows.h"

namespace millrace::ps {
namespace {

// Of slices that are moving averages, whatever was asked for.
Encoding::Kind EncodingOf(const ShardSlice& slice, Encoding::Kind encoding) {
  return slice.update().has_moving_average() ? Encoding::FLOAT32 : encoding;
}

absl::Status DoesNotFitAt(const ShardSlice& slice, uint64_t element, float value,
                          Encoding::Kind encoding) {
  return absl::InvalidArgumentError(
      absl::StrCat("element ", slice.slice().offset() + element, " of variable '",
                   PrintableName(slice.variable_name()), "' is ", DoesNotFit(value, encoding)));
}

absl::StatusOr<OutgoingPiece> WholePiece(Shard* shard, const BlockLayout::BlockPlace& place,
                                         const std::shared_ptr<const Block>& block,
                                         Encoding::Kind encoding) {
  const absl::Span<const float> values = block->values();
  if (encoding == Encoding::FLOAT32) return OutgoingPiece{place.slice, place.offset, values, block};
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<char[]> rounded,
                            shard->MakeCopy(values.size() * WidthOf(encoding)));
  const size_t bad = Narrow(values, encoding, rounded.get());
  if (bad < values.size()) {
    return DoesNotFitAt(shard->plan().spec.slices(static_cast<int>(place.slice)),
                        place.offset + bad, values[bad], encoding);
  }
  return OutgoingPiece{place.slice, place.offset,
                       EncodedNumbers(encoding, rounded.get(), values.size()), rounded};
}

// The rows of `wanted` that have elements in the block, in one place.
absl::StatusOr<absl::optional<OutgoingPiece>> PieceOfRows(Shard* shard,
                                                          const BlockLayout::BlockPlace& place,
                                                          const Block& block,
                                                          Encoding::Kind encoding,
                                                          const WantedRows& wanted) {
  const ElementRange range =
      shard->plan().layout.InVariable(place.slice, place.offset, place.elements);
  const absl::Span<const uint64_t> rows = RowsIn(RowsOf(wanted), wanted.width(), range);
  if (rows.empty()) return absl::nullopt;
  auto given = std::make_shared<PieceRows>();
  given->set_width(wanted.width());
  given->mutable_rows()->Add(rows.begin(), rows.end());
  given->set_count(place.elements);
  given->set_encoding(encoding);
  const std::vector<ElementRange> runs = RunsOf(rows, wanted.width(), range);
  uint64_t count = 0;
  for (const ElementRange& run : runs) count += run.count;
  const size_t width = WidthOf(encoding);
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<char[]> bytes, shard->MakeCopy(count * width));
  char* next = bytes.get();
  for (const ElementRange& run : runs) {
    const absl::Span<const float> values = block.values().subspan(run.begin, run.count);
    if (encoding == Encoding::FLOAT32) {
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>(next));
    } else if (const size_t bad = Narrow(values, encoding, next); bad < values.size()) {
      return DoesNotFitAt(shard->plan().spec.slices(static_cast<int>(place.slice)),
                          place.offset + run.begin + bad, values[bad], encoding);
    }
    next += values.size() * width;
  }
  return OutgoingPiece{place.slice, place.offset, EncodedNumbers(encoding, bytes.get(), count),
                       bytes, std::move(given)};
}

}  // namespace

absl::Status CheckEncoding(const PullRequest& request) {
  if (Encoding::Kind_IsValid(request.encoding())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("encoding: ", static_cast<int>(request.encoding()),
                                                 "; must be one of FLOAT32, FLOAT16, BFLOAT16"));
}

absl::StatusOr<WantedBySlice> WantedBySlice::Create(const PullRequest& request,
                                                    const ShardPlan& plan) {
  WantedBySlice result;
  size_t rows = 0;
  for (int i = 0; i < request.rows_size(); ++i) {
    const WantedRows& wanted = request.rows(i);
    const auto refused = [i](const auto&... why) {
      return absl::InvalidArgumentError(absl::StrCat("rows[", i, "]: ", why...));
    };
    if (wanted.slice() >= plan.layout.slices()) {
      return refused("slice: ", wanted.slice(), "; the shard has ", plan.layout.slices(),
                     " slices, counted from 0");
    }
    if (!result.by_slice_.emplace(wanted.slice(), &wanted).second) {
      return refused("slice: ", wanted.slice(), " a second time; name each slice once");
    }
    rows += static_cast<size_t>(wanted.rows_size());
    if (rows > kMaxRows) {
      return refused("more than ", kMaxRows, " rows in all; ask for all elements of some slices");
    }
    const Slice& slice = plan.spec.slices(static_cast<int>(wanted.slice())).slice();
    const absl::Status valid =
        CountRowElements(RowsOf(wanted), wanted.width(), {slice.offset(), slice.length()}).status();
    if (!valid.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("rows[", i, "].", valid.message()));
    }
  }
  return result;
}

size_t MostElements(const BlockLayout& layout, size_t index, const WantedRows* wanted) {
  const BlockLayout::BlockPlace& place = layout.blocks()[index];
  if (wanted == nullptr) return place.elements;
  const ElementRange range = layout.InVariable(place.slice, place.offset, place.elements);
  const size_t rows = RowsIn(RowsOf(*wanted), wanted->width(), range).size();
  return rows > place.elements / wanted->width() ? place.elements : rows * wanted->width();
}

absl::StatusOr<absl::optional<OutgoingPiece>> PieceOf(Shard* shard, size_t index,
                                                      const std::shared_ptr<const Block>& block,
                                                      Encoding::Kind encoding,
                                                      const WantedRows* wanted) {
  const BlockLayout::BlockPlace& place = shard->plan().layout.blocks()[index];
  const ShardSlice& slice = shard->plan().spec.slices(static_cast<int>(place.slice));
  const Encoding::Kind sent_as = EncodingOf(slice, encoding);
  if (wanted != nullptr) return PieceOfRows(shard, place, *block, sent_as, *wanted);
  MILLRACE_ASSIGN_OR_RETURN(OutgoingPiece piece, WholePiece(shard, place, block, sent_as));
  return piece;
}

}  // namespace millrace::ps
