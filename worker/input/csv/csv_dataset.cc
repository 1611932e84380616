#include "worker/input/csv/csv_dataset.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
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

void FillLabel(const CsvCells& label, absl::Span<const uint64_t> indices, Tensor* tensor) {
  tensor->floats.clear();
  tensor->ids.clear();
  for (const uint64_t index : indices) {
    if (label.numbers_only) {
      tensor->floats.push_back(label.numbers[index]);
    } else {
      tensor->ids.push_back(label.ids[index]);
    }
  }
}

class CsvDataset final : public Dataset {
 public:
  CsvDataset(CsvTable table, std::vector<CsvFeature> features, std::vector<TensorSpec> labels)
      : table_(std::move(table)),
        features_(std::move(features)),
        fingerprint_(FingerprintOfTable(table_)) {
    for (const CsvFeature& feature : features_) {
      example_.features.push_back(DescribeFeature(feature));
    }
    example_.labels = std::move(labels);
  }

  uint64_t size() const override { return table_.examples(); }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    batch->size = indices.size();
    batch->features.resize(features_.size());
    for (size_t i = 0; i < features_.size(); ++i) {
      FillFeature(table_, features_[i], indices, &batch->features[i]);
    }
    batch->labels.resize(table_.labels.size());
    for (size_t i = 0; i < table_.labels.size(); ++i) {
      FillLabel(table_.labels[i], indices, &batch->labels[i]);
    }
    batch->weights.clear();
    if (table_.weights.empty()) return absl::OkStatus();
    for (const uint64_t index : indices) batch->weights.push_back(table_.weights[index]);
    return absl::OkStatus();
  }

 private:
  const CsvTable table_;
  const std::vector<CsvFeature> features_;
  ExampleSpec example_;
  const uint64_t fingerprint_;
};

TensorSpec DescribeLabel(const CsvLabel& label, const CsvCells& cells,
                         const std::string& largest_class) {
  TensorSpec spec;
  spec.name = LabelName(label);
  if (label.number()) return spec;
  spec.type = ElementType::kId;
  spec.limit = label.classes_size();
  if (spec.limit > 0) return spec;
  for (const int32_t id : cells.ids) spec.limit = std::max<int64_t>(spec.limit, id + 1);
  spec.largest_id = largest_class;
  return spec;
}

std::vector<TensorSpec> DescribeLabels(const CsvFiles& spec, CsvTableReader* reader) {
  std::vector<TensorSpec> labels;
  for (int i = 0; i < spec.label_size(); ++i) {
    labels.push_back(
        DescribeLabel(spec.label(i), reader->table().labels[i], reader->largest_class(i)));
  }
  return labels;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenCsvDataset(const CsvFiles& spec,
                                                        const ExampleSelection& selection,
                                                        const DataDirectory& directory,
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
      selection.CheckCount(reader.examples(), reader.table().examples(), reader.files(), field));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<CsvFeature> features,
                            LayOutFeatures(spec, reader.table().ids, path));
  std::vector<TensorSpec> labels = DescribeLabels(spec, &reader);
  return std::make_unique<CsvDataset>(std::move(reader.table()), std::move(features),
                                      std::move(labels));
}

}  // namespace millrace::worker
