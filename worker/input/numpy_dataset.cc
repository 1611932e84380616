#include "worker/input/numpy_dataset.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/data_labels.h"
#include "common/status_macros.h"
#include "worker/input/example_summary.h"
#include "worker/input/input_files.h"
#include "worker/input/npy_array.h"
#include "worker/input/npy_decoder.h"
#include "worker/input/record_dataset.h"

namespace millrace::worker {
namespace {

// One of the arrays of a set.
struct NumpyColumn {
  NumpyArray spec;
  std::string field;  // "data.train.numpy.features[0]"
  bool is_label = false;
  std::vector<NamedFile> files;
};

absl::StatusOr<NumpyColumn> FindColumn(const NumpyArray& spec, const std::string& field,
                                       bool is_label, const DataDirectory& directory) {
  NumpyColumn column = {spec, field, is_label, {}};
  column.spec.set_name(is_label ? LabelName(spec) : FeatureName(spec));
  const std::vector<std::string> listed(spec.files().begin(), spec.files().end());
  MILLRACE_ASSIGN_OR_RETURN(column.files,
                            FindFiles(directory.path, listed, absl::StrCat(field, ".files")));
  return column;
}

absl::StatusOr<std::vector<NumpyColumn>> FindColumns(const NumpyArrays& spec,
                                                     const DataDirectory& directory,
                                                     const std::string& field) {
  std::vector<NumpyColumn> columns;
  for (int i = 0; i < spec.features_size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(
        NumpyColumn column,
        FindColumn(spec.features(i), absl::StrCat(field, ".numpy.features[", i, "]"),
                   /*is_label=*/false, directory));
    columns.push_back(std::move(column));
  }
  if (columns.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".numpy.features: empty; must have at least one"));
  }
  for (int i = 0; i < spec.label_size(); ++i) {
    const std::string path = LabelPath(absl::StrCat(field, ".numpy"), i, spec.label_size());
    MILLRACE_ASSIGN_OR_RETURN(NumpyColumn column,
                              FindColumn(spec.label(i), path, /*is_label=*/true, directory));
    columns.push_back(std::move(column));
  }
  return columns;
}

TensorSpec DescribeColumn(const NumpyColumn& column, const NpyArray& array) {
  TensorSpec tensor;
  tensor.name = column.spec.name();
  tensor.type = NpyElementType(array.type(), column.is_label, column.spec.divide_by());
  tensor.shape = array.row_shape();
  // A column of labels, [n, 1], is as good as [n].
  if (column.is_label && tensor.shape == std::vector<uint64_t>{1}) tensor.shape.clear();
  return tensor;
}

// All arrays of a set, and the selected rows of each.
struct NumpyParts {
  std::vector<NpyArray> arrays;  // Features, then labels.
  std::vector<RecordColumn> columns;
};

// Decodes the next example, which has row `row` of each array, and adds it to the summary.
// INVALID_ARGUMENT names the file of the array that is at fault.
absl::Status SummariseRow(const NumpyParts& parts, uint64_t row, const std::string& field,
                          Batch* example, ExampleSummary* summary) {
  std::string scratch;
  ClearBatch(summary->spec(), example);
  for (size_t i = 0; i < parts.columns.size(); ++i) {
    const auto [file, number] = parts.arrays[i].Find(row);
    absl::Status status = parts.columns[i].Append(summary->examples(), &scratch, example);
    if (status.ok()) status = summary->AddTensor(*example, i, file, number);
    if (absl::IsInvalidArgument(status)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".numpy: ", file, ": example ", number, ": ", status.message()));
    }
    MILLRACE_RETURN_IF_ERROR(status);
  }
  summary->EndExample();
  return absl::OkStatus();
}

// Decodes every example once, for what follows from all of them.
absl::Status Summarise(const ExampleSelection& selection, const NumpyParts& parts,
                       const DataDirectory& directory, const std::string& field,
                       ExampleSummary* summary) {
  Batch example;
  for (uint64_t row = 0; row < parts.arrays.front().rows(); ++row) {
    if (!selection.Contains(row)) continue;
    MILLRACE_RETURN_IF_ERROR(CheckWanted(directory.stop));
    MILLRACE_RETURN_IF_ERROR(SummariseRow(parts, row, field, &example, summary));
  }
  return absl::OkStatus();
}

absl::Status CheckSameRows(const NpyArray& first, const NpyArray& array, const std::string& field) {
  if (first.rows() == array.rows()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".files: ", NameAll(array.files()), " has ", array.rows(), " rows, but ",
      NameAll(first.files()), " has ", first.rows(), "; row i of each array is of example i"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenNumpyDataset(
    const NumpyArrays& spec, const ExampleSelection& selection, const DataDirectory& directory,
    const std::string& field, uint64_t data_memory, uint64_t most_kept) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<NumpyColumn> columns,
                            FindColumns(spec, directory, field));
  uint64_t bytes = 0;
  for (const NumpyColumn& column : columns) bytes += BytesOnDisk(directory.path, column.files);
  NumpyParts parts;
  std::vector<NpyArray>& arrays = parts.arrays;
  arrays.reserve(columns.size());
  uint64_t kept = 0;
  ExampleSpec example;
  for (const NumpyColumn& column : columns) {
    arrays.emplace_back(column.spec.array(), selection, /*in_place=*/bytes > data_memory,
                        most_kept - kept);
    NpyArray& array = arrays.back();
    for (const NamedFile& file : column.files) {
      MILLRACE_RETURN_IF_ERROR(array.AddFile(directory, file));
    }
    kept += array.kept_bytes();
    MILLRACE_RETURN_IF_ERROR(CheckSameRows(arrays.front(), array, column.field));
    std::vector<TensorSpec>& tensors = column.is_label ? example.labels : example.features;
    const NpyTarget target = {column.spec.name(), column.is_label, tensors.size(),
                              column.spec.divide_by()};
    tensors.push_back(DescribeColumn(column, array));
    parts.columns.push_back({array.TakeRecords(), MakeNpyDecoder(array.type(), target)});
  }
  MILLRACE_RETURN_IF_ERROR(selection.CheckCount(arrays.front().rows(),
                                                parts.columns.front().records.size(),
                                                NameAll(arrays.front().files()), field));
  ExampleSummary summary(example);
  MILLRACE_RETURN_IF_ERROR(Summarise(selection, parts, directory, field, &summary));
  auto dataset = std::make_unique<RecordDataset>(std::move(parts.columns), example);
  dataset->Describe(summary);
  return dataset;
}

}  // namespace millrace::worker
