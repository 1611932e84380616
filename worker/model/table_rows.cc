#include "worker/model/table_rows.h"

#include <algorithm>
#include <bit>

#include "worker/model/penalty.h"

namespace millrace::worker {
namespace {

// Where there are fewer rows than this for each id, it is faster to mark them all than to sort ids.
constexpr uint64_t kRowsOfAnId = 256;

std::vector<uint64_t> Sorted(absl::Span<const int64_t> ids, uint64_t rows) {
  std::vector<uint64_t> distinct;
  distinct.reserve(ids.size());
  for (const int64_t id : ids) {
    if (id >= 0 && static_cast<uint64_t>(id) < rows) distinct.push_back(static_cast<uint64_t>(id));
  }
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

std::vector<uint64_t> Marked(absl::Span<const int64_t> ids, uint64_t rows) {
  std::vector<uint64_t> marks((rows + 63) / 64);
  for (const int64_t id : ids) {
    if (id < 0 || static_cast<uint64_t>(id) >= rows) continue;
    marks[static_cast<uint64_t>(id) / 64] |= uint64_t{1} << static_cast<uint64_t>(id) % 64;
  }
  std::vector<uint64_t> distinct;
  distinct.reserve(std::min<uint64_t>(ids.size(), rows));
  for (size_t i = 0; i < marks.size(); ++i) {
    for (uint64_t left = marks[i]; left != 0; left &= left - 1) {
      distinct.push_back(i * 64 + static_cast<uint64_t>(std::countr_zero(left)));
    }
  }
  return distinct;
}

}  // namespace

std::vector<TableRows> FindTableRows(const ModelPlan& plan) {
  std::vector<TableRows> tables(plan.variables.size());
  std::vector<int> layers(plan.variables.size());
  for (const LayerPlan& layer : plan.layers) {
    for (const int variable : layer.variables) {
      if (variable >= 0) ++layers[static_cast<size_t>(variable)];
    }
  }
  for (const LayerPlan& layer : plan.layers) {
    if (!layer.spec.has_embedding()) continue;
    const auto variable = static_cast<size_t>(layer.variable(kEmbeddings));
    if (layers[variable] > 1 || IsRegularized(plan.regularizers[variable])) continue;
    const Embedding& embedding = layer.spec.embedding();
    if (embedding.input_dim() * embedding.output_dim() < kLeastTableElements) continue;
    tables[variable] = {static_cast<size_t>(embedding.output_dim()), embedding.input_dim(),
                        layer.sources.front().index};
  }
  return tables;
}

std::vector<uint64_t> RowsOfBatch(const TableRows& table, const Batch& batch) {
  return DistinctIds(batch.features[table.feature].ids, table.rows);
}

std::vector<uint64_t> DistinctIds(absl::Span<const int64_t> ids, uint64_t rows) {
  return rows / kRowsOfAnId > ids.size() ? Sorted(ids, rows) : Marked(ids, rows);
}

}  // namespace millrace::worker
