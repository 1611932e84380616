#include "worker/input/csv/csv_dataset.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"
#include "worker/input/csv/csv_table.h"
#include "worker/input/csv/csv_table_reader.h"

namespace millrace::worker {
namespace {

TensorSpec DescribeFeature(const CsvFeature& feature) {
  TensorSpec spec;
  spec.name = feature.name;
  spec.type = feature.as_id ? ElementType::kId : ElementType::kFloat;
  spec.shape = {feature.width()};
  if (feature.as_id) spec.limit = feature.end;
  return spec;
}

class CsvDataset final : public Dataset {
 public:
  CsvDataset(CsvTable table, std::vector<CsvFeature> features, TensorSpec label)
      : table_(std::move(table)),
        features_(std::move(features)),
        fingerprint_(FingerprintOfTable(table_)) {
    for (const CsvFeature& feature : features_) {
      example_.features.push_back(DescribeFeature(feature));
    }
    example_.labels.push_back(std::move(label));
  }

  uint64_t size() const override { return table_.labels.size(); }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    batch->size = indices.size();
    batch->features.resize(features_.size());
    for (size_t i = 0; i < features_.size(); ++i) {
      FillFeature(table_, features_[i], indices, &batch->features[i]);
    }
    batch->labels.resize(1);
    batch->labels[0].floats.clear();
    batch->labels[0].ids.clear();
    batch->weights.clear();
    for (const uint64_t index : indices) AddLabel(index, batch);
    return absl::OkStatus();
  }

 private:
  void AddLabel(uint64_t index, Batch* batch) const {
    if (table_.labels.numbers_only) {
      batch->labels[0].floats.push_back(table_.labels.numbers[index]);
    } else {
      batch->labels[0].ids.push_back(table_.labels.ids[index]);
    }
    if (!table_.weights.empty()) batch->weights.push_back(table_.weights[index]);
  }

  const CsvTable table_;
  const std::vector<CsvFeature> features_;
  ExampleSpec example_;
  const uint64_t fingerprint_;
};

TensorSpec DescribeLabel(const CsvLabel& label, const CsvTable& table,
                         const std::string& largest_class) {
  TensorSpec spec;
  spec.name = "label";
  if (label.number()) return spec;
  spec.type = ElementType::kId;
  spec.limit = label.classes_size();
  if (spec.limit > 0) return spec;
  for (const int32_t id : table.labels.ids) spec.limit = std::max<int64_t>(spec.limit, id + 1);
  spec.largest_id = largest_class;
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenCsvDataset(const CsvFiles& spec,
                                                        const ExampleSelection& selection,
                                                        const std::string& directory,
                                                        const std::string& field,
                                                        uint64_t most_kept) {
  const std::string path = absl::StrCat(field, ".csv");
  MILLRACE_RETURN_IF_ERROR(CheckCsvFiles(spec, path));
  CsvTableReader reader(spec, selection, directory, path, most_kept);
  MILLRACE_RETURN_IF_ERROR(reader.Read());
  if (reader.examples() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".files: ", reader.files(),
                                                   ": no examples; there is no row but headers"));
  }
  MILLRACE_RETURN_IF_ERROR(
      selection.CheckCount(reader.examples(), reader.table().labels.size(), reader.files(), field));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<CsvFeature> features,
                            LayOutFeatures(spec, reader.table().ids, path));
  TensorSpec label = DescribeLabel(spec.label(), reader.table(), reader.largest_class());
  return std::make_unique<CsvDataset>(std::move(reader.table()), std::move(features),
                                      std::move(label));
}

}  // namespace millrace::worker
