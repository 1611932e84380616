// Reads CSV files into a table.
#ifndef MILLRACE_WORKER_INPUT_CSV_CSV_TABLE_READER_H_
#define MILLRACE_WORKER_INPUT_CSV_CSV_TABLE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/csv.pb.h"
#include "worker/input/csv/csv_column.h"
#include "worker/input/csv/csv_label.h"
#include "worker/input/csv/csv_reader.h"
#include "worker/input/csv/csv_table.h"
#include "worker/input/data_directory.h"
#include "worker/input/example_selection.h"
#include "worker/input/input_files.h"

namespace millrace::worker {

// Checks all rows, and keeps those of a selection. Not thread-safe.
class CsvTableReader {
 public:
  // `field` is the files' in the job ("data.train.csv"). What is passed must outlive this object.
  // REQUIRES: CheckCsvFiles is content with `spec`.
  CsvTableReader(const CsvFiles& spec, const ExampleSelection& selection,
                 const DataDirectory& directory, const std::string& field, uint64_t most_kept);

  // Reads all files. Blocks. INVALID_ARGUMENT: the file and the place of what is wrong.
  // UNAVAILABLE: the system failed to read. RESOURCE_EXHAUSTED: more than `most_kept` bytes.
  absl::Status Read();

  // In all files.
  uint64_t examples() const { return examples_; }

  // Their names, for messages about all of them.
  std::string files() const { return NameAll(files_); }

  // What was kept, and where the largest class of one of its labels is: "adult.data: line 17".
  CsvTable& table() { return table_; }
  const std::string& largest_class(size_t label) const { return labels_[label].largest_class; }

 private:
  // Where in a row what the job uses is.
  struct Places {
    std::vector<std::vector<size_t>> columns;  // Of each of the job's columns.
    std::vector<size_t> labels;                // Of each of the job's labels.
    size_t weight = 0;
    size_t fields = 0;  // Of the row.
  };

  // One of the job's labels.
  struct Label {
    const CsvLabel* spec;
    CsvLabelEncoder encoder;
    CsvCell cell = {};  // Of the row under way.
    int32_t largest = -1;
    std::string largest_class = {};
  };

  absl::Status MakeEncoders();
  absl::Status ReadFile(NamedFile* named);
  absl::Status FindPlaces(absl::Span<const std::string> names, const std::string& header,
                          Places* places) const;
  absl::Status AddRow(const CsvReader& reader, const Places& places);
  absl::Status EncodeRow(const CsvReader& reader, const Places& places);
  absl::Status EncodeLabels(const CsvReader& reader, const Places& places);
  absl::Status EncodeWeight(const CsvReader& reader, const Places& places);
  absl::Status KeepRow(const InputFile& file, uint64_t line);
  void KeepLabels(const InputFile& file, uint64_t line);
  CsvValue ValueAt(const CsvReader& reader, size_t field) const;

  const CsvFiles& spec_;
  const ExampleSelection& selection_;
  const DataDirectory& directory_;
  const std::string& field_;
  const uint64_t most_kept_;
  absl::flat_hash_set<std::string> missing_;
  std::vector<std::unique_ptr<CsvEncoder>> encoders_;
  std::vector<Label> labels_;
  std::vector<NamedFile> files_;
  uint64_t examples_ = 0;
  CsvTable table_;
  // Of the row under way.
  std::vector<CsvValue> values_;
  std::vector<CsvCell> cells_;
  float weight_ = 1;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CSV_CSV_TABLE_READER_H_
