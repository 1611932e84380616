#include "worker/model/compact_tables.h"

#include <algorithm>
#include <utility>

#include "worker/model/layer_plan.h"
#include "worker/model/memory_budget.h"

namespace millrace::worker {
namespace {

void NumberIds(const Tensor& ids, const DistinctRows& rows, Tensor* numbers) {
  numbers->ends = ids.ends;
  numbers->ids.clear();
  for (const int64_t id : ids.ids) {
    numbers->ids.push_back(static_cast<int64_t>(rows.IndexOf(id)));
  }
}

}  // namespace

CompactTables::CompactTables(const ModelPlan& plan)
    : plan_(plan),
      tables_(FindTableRows(plan_)),
      set_of_(tables_.size()),
      stays_(plan_.features.size()),
      feature_count_(plan_.features.size()) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].width > 0) set_of_[i] = RowSetOf(tables_[i]);
  }
  for (const LayerPlan& layer : plan_.layers) {
    const int table = layer.spec.has_embedding() ? layer.variable(kEmbeddings) : -1;
    for (const Source& source : layer.sources) {
      if (source.kind != Source::kFeature) continue;
      if (table >= 0 && tables_[static_cast<size_t>(table)].width > 0) {
        AddNumbers(source.index, set_of_[static_cast<size_t>(table)]);
      } else {
        stays_[source.index] = true;
      }
    }
  }
  PlaceNumbers();
}

size_t CompactTables::RowSetOf(const TableRows& table) {
  const auto found = std::find_if(row_sets_.begin(), row_sets_.end(), [&](const RowSet& set) {
    return set.features == table.features;
  });
  if (found == row_sets_.end()) {
    row_sets_.push_back({table.features, table.rows});
    return row_sets_.size() - 1;
  }
  found->rows = std::max(found->rows, table.rows);
  return static_cast<size_t>(found - row_sets_.begin());
}

void CompactTables::AddNumbers(size_t feature, size_t row_set) {
  for (const Numbers& numbers : numbers_) {
    if (numbers.feature == feature && numbers.row_set == row_set) return;
  }
  numbers_.push_back({feature, row_set});
}

// In the place of the feature, if nobody else wants that.
void CompactTables::PlaceNumbers() {
  std::vector<bool> is_taken = stays_;
  for (Numbers& numbers : numbers_) {
    numbers.place = is_taken[numbers.feature] ? feature_count_++ : numbers.feature;
    is_taken[numbers.feature] = true;
  }
  for (size_t i = 0; i < stays_.size(); ++i) stays_[i] = stays_[i] || !is_taken[i];
}

const CompactTables::Numbers& CompactTables::NumbersOf(size_t feature, size_t row_set) const {
  return *std::find_if(numbers_.begin(), numbers_.end(), [&](const Numbers& numbers) {
    return numbers.feature == feature && numbers.row_set == row_set;
  });
}

CompactTables::Rooms CompactTables::RoomsFor(size_t batch) const {
  Rooms rooms;
  for (const TableRows& table : tables_) {
    rooms.push_back(MostRowsOfBatch(table, plan_, batch, kLikelyRaggedIds));
  }
  return rooms;
}

bool CompactTables::Fits(const Rooms& rooms, const CompactBatch& batch) {
  for (size_t i = 0; i < rooms.size(); ++i) {
    if (batch.rows[i] != nullptr && batch.rows[i]->rows.size() > rooms[i]) return false;
  }
  return true;
}

CompactTables::Rooms CompactTables::Grown(const Rooms& rooms, const CompactBatch& batch,
                                          uint64_t factor) const {
  Rooms grown = rooms;
  for (size_t i = 0; i < grown.size(); ++i) {
    const uint64_t needed = batch.rows[i] == nullptr ? 0 : batch.rows[i]->rows.size();
    if (needed > rooms[i]) grown[i] = std::min(factor * needed, tables_[i].rows);
  }
  return grown;
}

double CompactTables::HostBytes(const Rooms& rooms) const {
  double elements = 0;
  bool may_grow = false;
  double others = 0;
  for (size_t i = 0; i < tables_.size(); ++i) {
    const TableRows& table = tables_[i];
    if (table.width == 0) {
      others += VariableElements(plan_.variables[i]);
      continue;
    }
    const bool is_trained = !plan_.variables[i].update().has_frozen();
    elements += static_cast<double>(table.width) *
                static_cast<double>(table.rows + (is_trained ? rooms[i] : 0));
    for (const size_t feature : table.features) may_grow |= plan_.features[feature].ragged;
  }
  return sizeof(float) * (elements + (may_grow ? others : 0));
}

ModelPlan CompactTables::PlanFor(const Rooms& rooms) const {
  ModelPlan compact = plan_;
  compact.host_bytes = HostBytes(rooms);
  compact.features.resize(feature_count_);
  for (const Numbers& numbers : numbers_) {
    compact.features[numbers.place] = plan_.features[numbers.feature];
    compact.features[numbers.place].limit = 0;  // Not what the data says.
  }
  for (LayerPlan& layer : compact.layers) {
    if (!layer.spec.has_embedding()) continue;
    const auto variable = static_cast<size_t>(layer.variable(kEmbeddings));
    if (tables_[variable].width == 0) continue;
    compact.variables[variable].set_shape(0, rooms[variable]);
    layer.spec.mutable_embedding()->set_input_dim(rooms[variable]);
    Source& source = layer.sources.front();
    source.index = NumbersOf(source.index, set_of_[variable]).place;
  }
  return compact;
}

void CompactTables::Translate(const Batch& batch, CompactBatch* compact) const {
  Batch& to = compact->batch;
  to.size = batch.size;
  to.labels = batch.labels;
  to.weights = batch.weights;
  to.features.resize(feature_count_);
  for (size_t i = 0; i < stays_.size(); ++i) {
    if (stays_[i]) to.features[i] = batch.features[i];
  }
  compact->rows.assign(tables_.size(), nullptr);
  for (size_t set = 0; set < row_sets_.size(); ++set) {
    const DistinctRows rows = RowsOfBatch(row_sets_[set].features, row_sets_[set].rows, batch);
    for (const Numbers& numbers : numbers_) {
      if (numbers.row_set != set) continue;
      NumberIds(batch.features[numbers.feature], rows, &to.features[numbers.place]);
    }
    for (size_t i = 0; i < tables_.size(); ++i) {
      if (tables_[i].width == 0 || set_of_[i] != set) continue;
      compact->rows[i] =
          std::make_shared<VariableRows>(VariableRows{tables_[i].width, rows.rows()});
    }
  }
}

ModelPlan PlanForDevice(const ModelPlan& plan, const BatchSizes& batches) {
  const CompactTables tables(plan);
  return tables.any() ? tables.PlanFor(tables.RoomsFor(batches.train)) : plan;
}

}  // namespace millrace::worker
