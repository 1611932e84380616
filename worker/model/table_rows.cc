#include "worker/model/table_rows.h"

#include <algorithm>
#include <bit>

#include "worker/model/penalty.h"

namespace millrace::worker {
namespace {

// Where there are fewer rows than this for each id, it is faster to mark them all than to sort ids.
constexpr uint64_t kRowsOfAnId = 256;

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

double ElementsWithoutGradients(const ModelPlan& plan, size_t batch) {
  const std::vector<TableRows> tables = FindTableRows(plan);
  double sum = 0;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const TableRows& table = tables[i];
    if (table.width == 0 || plan.variables[i].update().has_frozen()) continue;
    const TensorSpec& feature = plan.features[table.feature];
    const size_t ids = feature.ragged ? 0 : batch * ElementCount(feature.shape);
    const uint64_t others = table.rows - std::min<uint64_t>(ids, table.rows);
    sum += static_cast<double>(others) * static_cast<double>(table.width);
  }
  return sum;
}

DistinctRows::DistinctRows(absl::Span<const int64_t> ids, uint64_t rows) {
  rows / kRowsOfAnId > ids.size() ? Sort(ids, rows) : Mark(ids, rows);
}

void DistinctRows::Sort(absl::Span<const int64_t> ids, uint64_t rows) {
  rows_.reserve(ids.size());
  for (const int64_t id : ids) {
    if (id >= 0 && static_cast<uint64_t>(id) < rows) rows_.push_back(static_cast<uint64_t>(id));
  }
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
}

void DistinctRows::Mark(absl::Span<const int64_t> ids, uint64_t rows) {
  marks_.resize((rows + 63) / 64);
  before_.resize(marks_.size());
  for (const int64_t id : ids) {
    if (id < 0 || static_cast<uint64_t>(id) >= rows) continue;
    marks_[static_cast<uint64_t>(id) / 64] |= uint64_t{1} << static_cast<uint64_t>(id) % 64;
  }
  rows_.reserve(std::min<uint64_t>(ids.size(), rows));
  for (size_t i = 0; i < marks_.size(); ++i) {
    before_[i] = static_cast<uint32_t>(rows_.size());
    for (uint64_t left = marks_[i]; left != 0; left &= left - 1) {
      rows_.push_back(i * 64 + static_cast<uint64_t>(std::countr_zero(left)));
    }
  }
}

size_t DistinctRows::IndexOf(int64_t id) const {
  const auto row = static_cast<uint64_t>(id);
  if (marks_.empty()) {
    return static_cast<size_t>(std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin());
  }
  const uint64_t lower = (uint64_t{1} << row % 64) - 1;
  return before_[row / 64] + static_cast<size_t>(std::popcount(marks_[row / 64] & lower));
}

std::vector<uint64_t> RowsOfBatch(const TableRows& table, const Batch& batch) {
  return DistinctRows(batch.features[table.feature].ids, table.rows).TakeRows();
}

}  // namespace millrace::worker
