// Tables of embeddings, of which a step reads and changes the rows that its batch has ids of.
#ifndef MILLRACE_WORKER_MODEL_TABLE_ROWS_H_
#define MILLRACE_WORKER_MODEL_TABLE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "worker/input/batch.h"
#include "worker/model/layer_plan.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Of a variable: whether its rows travel by themselves, and which features have their numbers.
struct TableRows {
  size_t width = 0;  // Elements of a row. 0: each step takes all of the variable.
  uint64_t rows = 0;
  std::vector<size_t> features = {};  // In Batch::features; ascending, each once.
};

// Smaller ones travel as a whole: 256 KiB, which take no longer than to find out the rows.
inline constexpr uint64_t kLeastTableElements = uint64_t{1} << 16;

// Of each variable of the plan: tables of embeddings, one or several that share it, which are not
// regularized: that would change all of them. So a step's result does not depend on other rows.
std::vector<TableRows> FindTableRows(const ModelPlan& plan);

// How many rows of the table a batch has at most, where its ragged features have so many ids an
// example.
uint64_t MostRowsOfBatch(const TableRows& table, const ModelPlan& plan, size_t batch,
                         size_t ragged_ids);

// Elements of tables that are not frozen, and that a step of `batch` examples gives no gradient of,
// at least. How many ids there are in ragged features is not known, and taken for none.
double ElementsWithoutGradients(const ModelPlan& plan, size_t batch);

// The rows that ids are of, ascending, each once; and which of them an id's is. Ids that the table
// has no row for do not count.
class DistinctRows {
 public:
  // Of several features.
  using Ids = std::vector<absl::Span<const int64_t>>;

  // Of a table of so many rows.
  DistinctRows(const Ids& ids, uint64_t rows);

  const std::vector<uint64_t>& rows() const { return rows_; }
  std::vector<uint64_t> TakeRows() && { return std::move(rows_); }

  // The index in rows() of an id's row. REQUIRES: it is one of the ids, and the table has its row.
  size_t IndexOf(int64_t id) const;

 private:
  void Sort(const Ids& ids, size_t count, uint64_t rows);
  void Mark(const Ids& ids, size_t count, uint64_t rows);

  std::vector<uint64_t> rows_;
  // A bit for each row of the table, and how many are set before each word. Empty: ids were sorted.
  std::vector<uint64_t> marks_;
  std::vector<uint32_t> before_;
};

// Those of the ids that a batch has in these features.
DistinctRows RowsOfBatch(const std::vector<size_t>& features, uint64_t rows, const Batch& batch);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_TABLE_ROWS_H_
