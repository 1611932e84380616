#include "worker/parameters/variable_rows.h"

#include <cstddef>

#include "glog/logging.h"

namespace millrace::worker {

void CheckVariableRows(const VariableRows& rows, uint64_t elements) {
  CHECK_GE(rows.width, 1u);
  CHECK(AreRowsOf(rows, elements)) << "rows of " << rows.width << " elements in a variable of "
                                   << elements << " must be ascending and within it";
}

FoundRows FindRows(const VariableRows& rows, const ElementRange& range) {
  FoundRows found;
  found.rows = RowsIn(rows.rows, rows.width, range);
  if (found.rows.empty()) return found;
  const uint64_t first = found.rows.data() - rows.rows.data();
  const uint64_t last = first + found.rows.size() - 1;
  const auto part_of = [&](uint64_t row) {
    const ElementRange part = PartOfRow(row, rows.width, range);
    return ElementRange{range.begin + part.begin - row * rows.width, part.count};
  };
  const ElementRange of_last = part_of(found.rows.back());
  found.elements.begin = first * rows.width + part_of(found.rows.front()).begin;
  const uint64_t end = last * rows.width + of_last.begin + of_last.count;
  found.elements.count = end - found.elements.begin;
  return found;
}

}  // namespace millrace::worker
