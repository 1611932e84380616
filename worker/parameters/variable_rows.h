// Which elements of a variable, or of a range of one, its rows are: see VariableRows.
#ifndef MILLRACE_WORKER_PARAMETERS_VARIABLE_ROWS_H_
#define MILLRACE_WORKER_PARAMETERS_VARIABLE_ROWS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/wire/rows.h"

namespace millrace::worker {

// Stops the process where they are not as VariableRows says, of a variable of that many elements.
// REQUIRES: rows.width >= 1.
void CheckVariableRows(const VariableRows& rows, uint64_t elements);

// Those of some rows that have elements in a range.
struct FoundRows {
  absl::Span<const uint64_t> rows;
  // What they have in the range, among the elements of all rows, one row after the other: as a
  // range of variable elements has no holes, neither have these.
  ElementRange elements;
};

// REQUIRES: rows.width >= 1. The result refers to `rows`.
FoundRows FindRows(const VariableRows& rows, const ElementRange& range);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_VARIABLE_ROWS_H_
