// Models whose large tables stay on the host: what computes has the rows of one batch alone.
//
// A compact table has, in place of a table, those of its rows that a batch has ids of, one after
// the other, and the batch's ids are their numbers there. Rows keep their order, so sums over them
// have the same bits. A device computes a model with compact tables as any other.
#ifndef MILLRACE_WORKER_MODEL_COMPACT_TABLES_H_
#define MILLRACE_WORKER_MODEL_COMPACT_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/wire/rows.h"
#include "worker/input/batch.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model_plan.h"
#include "worker/model/table_rows.h"

namespace millrace::worker {

// A batch as a model with compact tables takes it.
struct CompactBatch {
  Batch batch;
  // What stands in each compact table, by variable; null: it is none.
  std::vector<std::shared_ptr<const VariableRows>> rows;
};

// The tables of one model (FindTableRows). Immutable: thread-safe. Throws std::bad_alloc.
class CompactTables {
 public:
  explicit CompactTables(const ModelPlan& plan);

  // Whether the model has such tables.
  bool any() const { return !row_sets_.empty(); }

  // By variable; those without a width are no such tables.
  const std::vector<TableRows>& tables() const { return tables_; }

  // By variable: how many rows its compact table has room for; 0: it has none.
  using Rooms = std::vector<uint64_t>;

  // For any batch of so many examples, unless it has more ids in ragged features than is likely.
  Rooms RoomsFor(size_t batch) const;
  // The same, but for tables with too little room for this batch: `factor` times the rows that it
  // needs, or all that the table has.
  Rooms Grown(const Rooms& rooms, const CompactBatch& batch, uint64_t factor) const;
  static bool Fits(const Rooms& rooms, const CompactBatch& batch);

  // The plan of the model with compact tables.
  ModelPlan PlanFor(const Rooms& rooms) const;

  // Writes the batch to `compact`, whose memory is used again. REQUIRES: CheckBatch is OK.
  void Translate(const Batch& batch, CompactBatch* compact) const;

 private:
  // The features whose ids some tables take: those have the same rows of a batch.
  struct RowSet {
    std::vector<size_t> features;
    uint64_t rows = 0;  // Of the largest table.
  };
  // The ids of a feature become numbers in a set's rows, and a feature of the compact plan.
  struct Numbers {
    size_t feature = 0;
    size_t row_set = 0;
    size_t place = 0;
  };
  size_t RowSetOf(const TableRows& table);
  // ModelPlan::host_bytes.
  double HostBytes(const Rooms& rooms) const;
  const Numbers& NumbersOf(size_t feature, size_t row_set) const;
  void AddNumbers(size_t feature, size_t row_set);
  void PlaceNumbers();

  const ModelPlan plan_;
  const std::vector<TableRows> tables_;
  std::vector<RowSet> row_sets_;
  std::vector<size_t> set_of_;  // By variable, of tables alone.
  std::vector<Numbers> numbers_;
  std::vector<bool> stays_;   // By feature of the plan: whether the compact plan has it as it is.
  size_t feature_count_ = 0;  // Of the compact plan.
};

// What the device of a job's model is given: the plan with compact tables for such batches, or,
// where it has no large tables, the plan itself.
ModelPlan PlanForDevice(const ModelPlan& plan, const BatchSizes& batches);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_COMPACT_TABLES_H_
