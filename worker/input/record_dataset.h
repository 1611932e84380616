// Sets whose examples are decoded from records whenever they are read.
#ifndef MILLRACE_WORKER_INPUT_RECORD_DATASET_H_
#define MILLRACE_WORKER_INPUT_RECORD_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/input/dataset.h"
#include "worker/input/example_selection.h"
#include "worker/input/example_summary.h"
#include "worker/input/input_file.h"
#include "worker/input/input_files.h"
#include "worker/input/record_store.h"

namespace millrace::worker {

// Immutable and thread-safe.
class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;

  // Appends an example, or the part of it that this record has, to the tensors of `batch`, which
  // has all that the set's ExampleSpec names. INVALID_ARGUMENT, without the place: what is wrong.
  virtual absl::Status Append(absl::string_view record, Batch* batch) const = 0;
};

// Part of each example of a set: record i is of example i.
struct RecordColumn {
  RecordStore records;
  std::unique_ptr<const RecordDecoder> decoder;

  // Appends record `index` to the tensors of `batch`; `scratch` is memory to use again. As
  // RecordStore::Get and RecordDecoder::Append.
  absl::Status Append(uint64_t index, std::string* scratch, Batch* batch) const;
};

class RecordDataset final : public Dataset {
 public:
  // `fingerprint` and the limits in `example` may be set later, by Describe. REQUIRES: the columns
  // have the same number of records, and fill all that `example` names.
  RecordDataset(std::vector<RecordColumn> columns, const ExampleSpec& example)
      : columns_(std::move(columns)), example_(example) {}

  // REQUIRES: nobody else knows of the set yet.
  void Describe(const ExampleSummary& summary) {
    example_ = summary.spec();
    fingerprint_ = summary.fingerprint();
  }

  uint64_t size() const override { return columns_.front().records.size(); }
  const ExampleSpec& example() const override { return example_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override;

 private:
  const std::vector<RecordColumn> columns_;
  ExampleSpec example_;
  uint64_t fingerprint_ = 0;
};

// Makes a set of files whose records are read one after the other. Not thread-safe.
class RecordCollector {
 public:
  // At most `most_kept` bytes of memory are kept: of records, unless they stay in their files, and
  // of the index of all.
  RecordCollector(const ExampleSpec& example, std::unique_ptr<const RecordDecoder> decoder,
                  const ExampleSelection& selection, const RecordLayout& layout,
                  uint64_t most_kept);

  // The records from here on are in `file`, which must outlive them. `in_place`: they stay there,
  // unless it is compressed.
  absl::Status BeginFile(const InputFile& file, bool in_place);

  // The next record, which the file has at `offset`. Keeps and summarises it where it is selected.
  // INVALID_ARGUMENT: it cannot be decoded. RESOURCE_EXHAUSTED: it is one too many.
  absl::Status Add(absl::string_view record, uint64_t offset);

  // INVALID_ARGUMENT: the file has changed since it was opened.
  absl::Status EndFile();

  // `files`: their name, for messages. INVALID_ARGUMENT: the selection does not fit them.
  absl::StatusOr<std::unique_ptr<Dataset>> Finish(const std::string& files,
                                                  const std::string& field) &&;

 private:
  const std::unique_ptr<const ExampleSelection> selection_;
  ExampleSummary summary_;
  RecordColumn column_;
  const InputFile* file_ = nullptr;
  bool in_place_ = false;
  const uint64_t most_kept_;
  uint64_t examples_ = 0;  // Of all files so far, and of this one.
  uint64_t examples_of_file_ = 0;
  Batch example_;
};

// Which files a set has.
struct RecordFiles {
  std::vector<std::string> names;  // As the job lists them.
  DataDirectory directory;
  std::string field;         // "data.train"
  std::string format;        // "cifar": the field of the set that has `files`.
  uint64_t data_memory = 0;  // Files with more bytes stay where they are.
};

// Opens a set: `add` gives the collector all records of a file. INVALID_ARGUMENT: no such files, or
// they do not fit the selection. Others: as `add` and RecordCollector have them.
using AddRecords = std::function<absl::Status(InputFile* file, RecordCollector* collector)>;
absl::StatusOr<std::unique_ptr<Dataset>> CollectRecords(const RecordFiles& files,
                                                        const AddRecords& add,
                                                        RecordCollector&& collector);

// The bytes of `files`, as they are on the disk; 0 for one that is not there.
uint64_t BytesOnDisk(const std::string& directory, const std::vector<NamedFile>& files);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_RECORD_DATASET_H_
