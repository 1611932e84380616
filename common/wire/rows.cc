#include "common/wire/rows.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {

bool AreRowsOf(const VariableRows& rows, uint64_t elements) {
  const uint64_t whole = elements / rows.width;
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    if (rows.rows[i] >= whole || (i > 0 && rows.rows[i] <= rows.rows[i - 1])) return false;
  }
  return true;
}

absl::StatusOr<uint64_t> CountRowElements(absl::Span<const uint64_t> rows, uint64_t width,
                                          const ElementRange& range) {
  if (width == 0) return absl::InvalidArgumentError("width: 0; must be at least 1");
  if (rows.empty()) return 0;
  if (range.count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows: ", rows.size(), " are given, of no elements"));
  }
  const uint64_t first = range.begin / width;
  const uint64_t last = (range.begin + range.count - 1) / width;
  uint64_t elements = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < first || rows[i] > last) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows[", i, "]: ", rows[i], "; must be from ", first, " to ", last,
                       ", which elements ", range.begin, " to ", range.begin + range.count - 1,
                       " of the variable are of, with a width of ", width));
    }
    if (i > 0 && rows[i] <= rows[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows[", i, "]: ", rows[i], " after ", rows[i - 1], "; must be ascending"));
    }
    elements += PartOfRow(rows[i], width, range).count;
  }
  return elements;
}

std::vector<ElementRange> RunsOf(absl::Span<const uint64_t> rows, uint64_t width,
                                 const ElementRange& range) {
  std::vector<ElementRange> runs;
  runs.reserve(rows.size());
  for (const uint64_t row : rows) {
    const ElementRange part = PartOfRow(row, width, range);
    if (!runs.empty() && runs.back().begin + runs.back().count == part.begin) {
      runs.back().count += part.count;
    } else {
      runs.push_back(part);
    }
  }
  return runs;
}

void CopyToRuns(const void* numbers, absl::Span<const ElementRange> runs, size_t width, void* to) {
  const char* next = static_cast<const char*>(numbers);
  for (const ElementRange& run : runs) {
    std::memcpy(static_cast<char*>(to) + run.begin * width, next, run.count * width);
    next += run.count * width;
  }
}

absl::Span<const uint64_t> RowsIn(absl::Span<const uint64_t> rows, uint64_t width,
                                  const ElementRange& range) {
  if (range.count == 0) return {};
  const uint64_t first = range.begin / width;
  const uint64_t last = (range.begin + range.count - 1) / width;
  const auto begin = std::lower_bound(rows.begin(), rows.end(), first);
  const auto end = std::upper_bound(begin, rows.end(), last);
  return rows.subspan(begin - rows.begin(), end - begin);
}

}  // namespace millrace
