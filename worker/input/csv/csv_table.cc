#include "worker/input/csv/csv_table.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "worker/input/fingerprint.h"

namespace millrace::worker {
namespace {

uint64_t FingerprintOfCells(uint64_t seed, const CsvCells& cells) {
  return cells.numbers_only ? FingerprintOf(seed, cells.numbers) : FingerprintOf(seed, cells.ids);
}

CsvFeature* FindOrAdd(const std::string& name, std::vector<CsvFeature>* features) {
  const auto found = std::find_if(features->begin(), features->end(),
                                  [&](const CsvFeature& known) { return known.name == name; });
  if (found != features->end()) return &*found;
  features->emplace_back();
  features->back().name = name;
  return &features->back();
}

void FillNumbers(const CsvTable& table, const CsvFeature& feature,
                 absl::Span<const uint64_t> indices, float* out) {
  for (const uint64_t index : indices) {
    for (const CsvFeaturePart& part : feature.parts) {
      const CsvCells& cells = table.columns[part.column];
      if (cells.numbers_only) {
        out[part.offset] = cells.numbers[index];
      } else {
        out[part.offset + cells.ids[index]] = 1.0f;
      }
    }
    out += feature.end;
  }
}

void FillIds(const CsvTable& table, const CsvFeature& feature, absl::Span<const uint64_t> indices,
             int64_t* out) {
  for (const uint64_t index : indices) {
    for (const CsvFeaturePart& part : feature.parts) {
      *out++ = part.offset + table.columns[part.column].ids[index];
    }
  }
}

}  // namespace

void CsvCells::Add(const CsvCell& cell) {
  if (numbers_only) {
    numbers.push_back(cell.number);
  } else {
    ids.push_back(cell.id);
  }
}

uint64_t FingerprintOfTable(const CsvTable& table) {
  uint64_t fingerprint = FingerprintOf(0, table.ids);
  for (const CsvCells& cells : table.columns) fingerprint = FingerprintOfCells(fingerprint, cells);
  for (const CsvCells& cells : table.labels) fingerprint = FingerprintOfCells(fingerprint, cells);
  return FingerprintOf(fingerprint, table.weights);
}

absl::StatusOr<std::vector<CsvFeature>> LayOutFeatures(const CsvFiles& spec,
                                                       absl::Span<const int64_t> ids,
                                                       const std::string& field) {
  std::vector<CsvFeature> features;
  for (int i = 0; i < spec.columns_size(); ++i) {
    const CsvColumn& column = spec.columns(i);
    CsvFeature* feature =
        FindOrAdd(column.feature().empty() ? "features" : column.feature(), &features);
    feature->as_id = column.as_id();
    feature->parts.push_back({static_cast<size_t>(i), feature->end});
    feature->end += std::max<int64_t>(ids[i], 1);
    if (feature->as_id || feature->end <= kMaxUnits) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".columns[", i, "]: the feature '", feature->name, "' has ",
                     feature->end, " numbers with it; must have at most ", kMaxUnits,
                     "; set as_id for an embedding, or use fewer buckets or words"));
  }
  return features;
}

void FillFeature(const CsvTable& table, const CsvFeature& feature,
                 absl::Span<const uint64_t> indices, Tensor* tensor) {
  if (feature.as_id) {
    tensor->ids.resize(indices.size() * feature.width());
    FillIds(table, feature, indices, tensor->ids.data());
  } else {
    tensor->floats.assign(indices.size() * feature.width(), 0.0f);
    FillNumbers(table, feature, indices, tensor->floats.data());
  }
}

}  // namespace millrace::worker
