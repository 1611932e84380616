// Which elements of a piece its rows are: see PieceRows in protos/parameter_server.proto.
#ifndef MILLRACE_COMMON_WIRE_ROWS_H_
#define MILLRACE_COMMON_WIRE_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace {

// Some rows of a variable: row r is its elements [r * width, (r + 1) * width).
struct VariableRows {
  size_t width = 0;                 // 0: all of the variable is meant, and `rows` says nothing.
  std::vector<uint64_t> rows = {};  // Ascending, each once, each whole within the variable.
};

// Whether they are as VariableRows says, of a variable of that many elements. REQUIRES: width >= 1.
bool AreRowsOf(const VariableRows& rows, uint64_t elements);

// Elements [begin, begin + count) of a variable, or a part of one.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t count = 0;
};

// The numbers of rows in a message: PieceRows or WantedRows.
template <typename Message>
absl::Span<const uint64_t> RowsOf(const Message& message) {
  return absl::MakeConstSpan(message.rows().data(), static_cast<size_t>(message.rows_size()));
}

// How many elements `rows` have in `range`, of the variable. INVALID_ARGUMENT: they are not
// ascending, or one has no element there; or the width is 0. The message begins with the field.
// REQUIRES: the range's end is below
// 2^64.
absl::StatusOr<uint64_t> CountRowElements(absl::Span<const uint64_t> rows, uint64_t width,
                                          const ElementRange& range);

// Those of `rows`, which are ascending, that have elements in `range`. REQUIRES: as above, width
// >= 1.
absl::Span<const uint64_t> RowsIn(absl::Span<const uint64_t> rows, uint64_t width,
                                  const ElementRange& range);

// What `rows` have in the range, counted from the range's first element, in order; rows that follow
// one another are one run. REQUIRES: as CountRowElements.
std::vector<ElementRange> RunsOf(absl::Span<const uint64_t> rows, uint64_t width,
                                 const ElementRange& range);

// Copies numbers of `width` bytes that stand one after the other to their places: runs of elements
// of `to`.
void CopyToRuns(const void* numbers, absl::Span<const ElementRange> runs, size_t width, void* to);

// What a row has in the range, counted from the range's first element. REQUIRES: it has some.
inline ElementRange PartOfRow(uint64_t row, uint64_t width, const ElementRange& range) {
  const uint64_t begin = std::max(row * width, range.begin);
  const uint64_t rest_of_row = width - (begin - row * width);
  return {begin - range.begin, std::min(rest_of_row, range.begin + range.count - begin)};
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_WIRE_ROWS_H_
