#include "worker/model/table_rows.h"

#include <algorithm>
#include <bit>

#include "worker/model/penalty.h"

namespace millrace::worker {
namespace {

// Where there are fewer rows than this for each id, it is faster to mark them all than to sort ids.
constexpr uint64_t kRowsOfAnId = 256;

bool IsRow(int64_t id, uint64_t rows) { return id >= 0 && static_cast<uint64_t>(id) < rows; }

}  // namespace

std::vector<TableRows> FindTableRows(const ModelPlan& plan) {
  std::vector<TableRows> tables(plan.variables.size());
  std::vector<bool> is_whole(plan.variables.size());
  for (const LayerPlan& layer : plan.layers) {
    for (const int index : layer.variables) {
      if (index < 0) continue;
      const auto variable = static_cast<size_t>(index);
      if (!layer.spec.has_embedding() || IsRegularized(plan.regularizers[variable])) {
        is_whole[variable] = true;
        continue;
      }
      TableRows& table = tables[variable];
      table.width = static_cast<size_t>(layer.spec.embedding().output_dim());
      table.rows = layer.spec.embedding().input_dim();
      table.features.push_back(layer.sources.front().index);
    }
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    TableRows& table = tables[i];
    if (is_whole[i] || table.rows * table.width < kLeastTableElements) {
      table = {};
      continue;
    }
    std::sort(table.features.begin(), table.features.end());
    table.features.erase(std::unique(table.features.begin(), table.features.end()),
                         table.features.end());
  }
  return tables;
}

uint64_t MostRowsOfBatch(const TableRows& table, const ModelPlan& plan, size_t batch,
                         size_t ragged_ids) {
  uint64_t ids = 0;
  for (const size_t index : table.features) {
    const TensorSpec& feature = plan.features[index];
    ids += batch * (feature.ragged ? ragged_ids : ElementCount(feature.shape));
  }
  return std::min(ids, table.rows);
}

double ElementsWithoutGradients(const ModelPlan& plan, size_t batch) {
  const std::vector<TableRows> tables = FindTableRows(plan);
  double sum = 0;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const TableRows& table = tables[i];
    if (table.width == 0 || plan.variables[i].update().has_frozen()) continue;
    const uint64_t others = table.rows - MostRowsOfBatch(table, plan, batch, /*ragged_ids=*/0);
    sum += static_cast<double>(others) * static_cast<double>(table.width);
  }
  return sum;
}

DistinctRows::DistinctRows(const Ids& ids, uint64_t rows) {
  size_t count = 0;
  for (const absl::Span<const int64_t> some : ids) count += some.size();
  rows / kRowsOfAnId > count ? Sort(ids, count, rows) : Mark(ids, count, rows);
}

void DistinctRows::Sort(const Ids& ids, size_t count, uint64_t rows) {
  rows_.reserve(count);
  for (const absl::Span<const int64_t> some : ids) {
    for (const int64_t id : some) {
      if (IsRow(id, rows)) rows_.push_back(static_cast<uint64_t>(id));
    }
  }
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
}

void DistinctRows::Mark(const Ids& ids, size_t count, uint64_t rows) {
  marks_.resize((rows + 63) / 64);
  before_.resize(marks_.size());
  for (const absl::Span<const int64_t> some : ids) {
    for (const int64_t id : some) {
      if (!IsRow(id, rows)) continue;
      marks_[static_cast<uint64_t>(id) / 64] |= uint64_t{1} << static_cast<uint64_t>(id) % 64;
    }
  }
  rows_.reserve(std::min<uint64_t>(count, rows));
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

DistinctRows RowsOfBatch(const std::vector<size_t>& features, uint64_t rows, const Batch& batch) {
  DistinctRows::Ids ids;
  for (const size_t feature : features) ids.emplace_back(batch.features[feature].ids);
  return DistinctRows(ids, rows);
}

}  // namespace millrace::worker
