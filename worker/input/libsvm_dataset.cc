#include "worker/input/libsvm_dataset.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/input/example_selection.h"
#include "worker/input/fingerprint.h"
#include "worker/input/input_file.h"
#include "worker/input/input_files.h"
#include "worker/input/libsvm_line.h"
#include "worker/input/line_reader.h"

namespace millrace::worker {
namespace {

// Row i has the entries row_begins[i] to row_begins[i + 1].
struct SparseRows {
  std::vector<uint64_t> row_begins = {0};
  std::vector<uint32_t> indices;
  std::vector<float> values;
  std::vector<int32_t> labels;
  std::string largest_label;  // Where it is, for messages.
};

// Not of the lines: blank ones and comments are no data.
uint64_t FingerprintOfRows(uint64_t features, const SparseRows& rows) {
  uint64_t fingerprint = FingerprintOf(features, rows.row_begins);
  fingerprint = FingerprintOf(fingerprint, rows.indices);
  fingerprint = FingerprintOf(fingerprint, rows.values);
  return FingerprintOf(fingerprint, rows.labels);
}

class LibsvmDataset final : public Dataset {
 public:
  LibsvmDataset(uint64_t features, SparseRows rows)
      : rows_(std::move(rows)),
        example_(FloatsAndClass({features},
                                *std::max_element(rows_.labels.begin(), rows_.labels.end()) + 1,
                                rows_.largest_label)),
        fingerprint_(FingerprintOfRows(features, rows_)) {}

  uint64_t size() const override { return rows_.labels.size(); }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    const uint64_t features = example_.features[0].shape[0];
    batch->size = indices.size();
    batch->features.resize(1);
    batch->features[0].floats.assign(indices.size() * features, 0.0f);
    batch->labels.resize(1);
    batch->labels[0].ids.resize(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      const uint64_t row = indices[i];
      float* out = batch->features[0].floats.data() + i * features;
      for (uint64_t entry = rows_.row_begins[row]; entry < rows_.row_begins[row + 1]; ++entry) {
        out[rows_.indices[entry]] = rows_.values[entry];
      }
      batch->labels[0].ids[i] = rows_.labels[row];
    }
    return absl::OkStatus();
  }

 private:
  const SparseRows rows_;
  const ExampleSpec example_;
  const uint64_t fingerprint_;
};

// Where an example stands.
struct LinePlace {
  std::string file;
  uint64_t line = 0;  // 0: nowhere.
};

// Gathers the rows of a selection, and sees that the labels of all files agree.
class RowCollector {
 public:
  RowCollector(const ExampleSelection& selection, uint64_t most_kept)
      : selection_(selection), most_kept_(most_kept) {}

  // INVALID_ARGUMENT: the label is of the other kind than those before. RESOURCE_EXHAUSTED.
  absl::Status Add(const LibsvmLine& example, uint64_t line, const InputFile& file) {
    const int32_t label = *example.label;
    if (label == -1 && minus_.line == 0) minus_ = {file.name(), line};
    if (label != -1 && label != 1 && other_.line == 0) other_ = {file.name(), line};
    if (minus_.line != 0 && other_.line != 0) {
      const LinePlace& before = label == -1 ? other_ : minus_;
      return file.ErrorAt(
          line, 1,
          absl::StrCat("label ", label, ", but the label of ",
                       before.file == file.name() ? "" : before.file + " ", "line ", before.line,
                       " is ", label == -1 ? "neither -1 nor +1" : "-1",
                       "; labels are whole numbers from 0, or all are -1 or +1"));
    }
    return selection_.Contains(examples_++) ? Keep(example, line, file) : absl::OkStatus();
  }

  uint64_t examples() const { return examples_; }
  uint64_t kept() const { return rows_.labels.size(); }

  SparseRows Finish() && {
    if (minus_.line != 0) {
      std::replace(rows_.labels.begin(), rows_.labels.end(), -1, 0);
    }
    return std::move(rows_);
  }

 private:
  absl::Status Keep(const LibsvmLine& example, uint64_t line, const InputFile& file) {
    const size_t more = example.indices.size();
    const uint64_t bytes =
        BytesWhileAdding(rows_.indices, more) + BytesWhileAdding(rows_.values, more) +
        BytesWhileAdding(rows_.row_begins, 1) + BytesWhileAdding(rows_.labels, 1);
    MILLRACE_RETURN_IF_ERROR(CheckKept(bytes, most_kept_, file));
    if (rows_.labels.empty() || *example.label > largest_) {
      largest_ = *example.label;
      rows_.largest_label = absl::StrCat(file.name(), ": line ", line);
    }
    rows_.indices.insert(rows_.indices.end(), example.indices.begin(), example.indices.end());
    rows_.values.insert(rows_.values.end(), example.values.begin(), example.values.end());
    rows_.row_begins.push_back(rows_.indices.size());
    rows_.labels.push_back(*example.label);
    return absl::OkStatus();
  }

  const ExampleSelection& selection_;
  const uint64_t most_kept_;
  uint64_t examples_ = 0;  // In all files so far.
  LinePlace minus_;        // The first with label -1.
  LinePlace other_;        // The first with a label that is neither -1 nor 1.
  int32_t largest_ = 0;    // Label that is kept.
  SparseRows rows_;
};

absl::Status AddFile(uint32_t features, InputFile* file, RowCollector* collector) {
  LineReader reader(file);
  LibsvmLine parsed;
  const uint64_t examples_before = collector->examples();
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (const auto error = ParseLibsvmLine(reader.line(), features, &parsed)) {
      return file->ErrorAt(reader.number(), error->column, error->message);
    }
    if (!parsed.label.has_value()) continue;
    MILLRACE_RETURN_IF_ERROR(collector->Add(parsed, reader.number(), *file));
  }
  if (collector->examples() == examples_before) return file->Error("holds no examples");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenLibsvmDataset(const LibsvmFile& spec,
                                                           const ExampleSelection& selection,
                                                           const DataDirectory& directory,
                                                           const std::string& field,
                                                           uint64_t most_kept) {
  if (spec.features() == 0 || spec.features() > kMaxUnits) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".libsvm.features: ", spec.features(), "; must be 1 to ", kMaxUnits));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      std::vector<NamedFile> names,
      FindFiles(directory.path, {spec.file()}, absl::StrCat(field, ".libsvm.file")));
  RowCollector collector(selection, most_kept);
  for (NamedFile& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(directory, name.name, name.field));
    MILLRACE_RETURN_IF_ERROR(AddFile(spec.features(), &file, &collector));
    name.name = file.name();
  }
  MILLRACE_RETURN_IF_ERROR(
      selection.CheckCount(collector.examples(), collector.kept(), NameAll(names), field));
  return std::make_unique<LibsvmDataset>(spec.features(), std::move(collector).Finish());
}

}  // namespace millrace::worker
