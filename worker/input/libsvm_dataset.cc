#include "worker/input/libsvm_dataset.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/input/example_range.h"
#include "worker/input/fingerprint.h"
#include "worker/input/input_file.h"
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
  std::vector<uint64_t> lines;  // Where each row stands in the file.
};

// Not of the lines: blank ones and comments are no data.
uint64_t FingerprintOfRows(uint64_t features, const SparseRows& rows) {
  uint64_t fingerprint = FingerprintOf(features, rows.row_begins);
  fingerprint = FingerprintOf(fingerprint, rows.indices);
  fingerprint = FingerprintOf(fingerprint, rows.values);
  return FingerprintOf(fingerprint, rows.labels);
}

ExampleSpec DescribeExample(uint64_t features, const SparseRows& rows, const std::string& name) {
  const auto largest = std::max_element(rows.labels.begin(), rows.labels.end());
  const auto row = static_cast<size_t>(largest - rows.labels.begin());
  return FloatsAndClass({features}, *largest + 1, absl::StrCat(name, ": line ", rows.lines[row]));
}

class LibsvmDataset final : public Dataset {
 public:
  LibsvmDataset(uint64_t features, SparseRows rows, const std::string& name)
      : rows_(std::move(rows)),
        example_(DescribeExample(features, rows_, name)),
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

// Gathers the rows of a range, and sees that the labels of the whole file agree.
class RowCollector {
 public:
  explicit RowCollector(const ExampleRange& range)
      : begin_(range.begin()),
        end_(range.end() == 0 ? std::numeric_limits<uint64_t>::max() : range.end()) {}

  // INVALID_ARGUMENT: the label is of the other kind than those before.
  absl::Status Add(const LibsvmLine& example, uint64_t line, const InputFile& file) {
    const int32_t label = *example.label;
    if (label == -1 && minus_line_ == 0) minus_line_ = line;
    if (label != -1 && label != 1 && other_line_ == 0) other_line_ = line;
    if (minus_line_ != 0 && other_line_ != 0) {
      return file.ErrorAt(line, 1,
                          absl::StrCat("label ", label, ", but the label of line ",
                                       std::min(minus_line_, other_line_), " is ",
                                       label == -1 ? "neither -1 nor +1" : "-1",
                                       "; labels are whole numbers from 0, or all are -1 or +1"));
    }
    if (begin_ <= examples_ && examples_ < end_) Keep(example, line);
    ++examples_;
    return absl::OkStatus();
  }

  uint64_t examples() const { return examples_; }

  SparseRows Finish() && {
    if (minus_line_ != 0) {
      std::replace(rows_.labels.begin(), rows_.labels.end(), -1, 0);
    }
    return std::move(rows_);
  }

 private:
  void Keep(const LibsvmLine& example, uint64_t line) {
    rows_.indices.insert(rows_.indices.end(), example.indices.begin(), example.indices.end());
    rows_.values.insert(rows_.values.end(), example.values.begin(), example.values.end());
    rows_.row_begins.push_back(rows_.indices.size());
    rows_.labels.push_back(*example.label);
    rows_.lines.push_back(line);
  }

  const uint64_t begin_;
  const uint64_t end_;
  uint64_t examples_ = 0;    // In the file so far.
  uint64_t minus_line_ = 0;  // The first with label -1; 0: none.
  uint64_t other_line_ = 0;  // The first with a label that is neither -1 nor 1; 0: none.
  SparseRows rows_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenLibsvmDataset(const LibsvmFile& spec,
                                                           const ExampleRange& range,
                                                           const std::string& directory,
                                                           const std::string& field) {
  if (spec.features() == 0 || spec.features() > kMaxUnits) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".libsvm.features: ", spec.features(), "; must be 1 to ", kMaxUnits));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      InputFile file, InputFile::Open(directory, spec.file(), absl::StrCat(field, ".libsvm.file")));
  LineReader reader(&file);
  RowCollector collector(range);
  LibsvmLine parsed;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (const auto error = ParseLibsvmLine(reader.line(), spec.features(), &parsed)) {
      return file.ErrorAt(reader.number(), error->column, error->message);
    }
    if (!parsed.label.has_value()) continue;
    MILLRACE_RETURN_IF_ERROR(collector.Add(parsed, reader.number(), file));
  }
  if (collector.examples() == 0) return file.Error("holds no examples");
  MILLRACE_RETURN_IF_ERROR(ResolveRange(range, collector.examples(), file.name(), field).status());
  return std::make_unique<LibsvmDataset>(spec.features(), std::move(collector).Finish(),
                                         file.name());
}

}  // namespace millrace::worker
