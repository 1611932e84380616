// Tables of embeddings, of which a step reads and changes the rows that its batch has ids of.
#ifndef MILLRACE_WORKER_MODEL_TABLE_ROWS_H_
#define MILLRACE_WORKER_MODEL_TABLE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/input/batch.h"
#include "worker/model/layer_plan.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Of a variable: whether its rows travel by themselves, and which feature has their numbers.
struct TableRows {
  size_t width = 0;  // Elements of a row. 0: each step takes all of the variable.
  uint64_t rows = 0;
  size_t feature = 0;  // In Batch::features.
};

// Smaller ones travel as a whole: 256 KiB, which take no longer than to find out the rows.
inline constexpr uint64_t kLeastTableElements = uint64_t{1} << 16;

// Of each variable of the plan: tables of one embedding alone that are not regularized, which would
// change all of them. So a step's result does not depend on other rows.
std::vector<TableRows> FindTableRows(const ModelPlan& plan);

// The rows that a batch has ids of, ascending, each once. Ids that the table has no row for do not
// count.
std::vector<uint64_t> RowsOfBatch(const TableRows& table, const Batch& batch);
std::vector<uint64_t> DistinctIds(absl::Span<const int64_t> ids, uint64_t rows);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_TABLE_ROWS_H_
