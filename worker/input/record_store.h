// The bytes of a set's examples: kept in memory, or left where they are in their files.
#ifndef MILLRACE_WORKER_INPUT_RECORD_STORE_H_
#define MILLRACE_WORKER_INPUT_RECORD_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/input/in_place_file.h"

namespace millrace::worker {

// How records stand in their files.
struct RecordLayout {
  uint32_t gap = 0;       // Bytes between two records that follow each other.
  bool checksum = false;  // The masked CRC-32C of each follows it, in four of these bytes.
};

// Records are numbered from 0 in the order in which they were added. Thread-safe once all are.
class RecordStore {
 public:
  explicit RecordStore(const RecordLayout& layout = {}) : layout_(layout) {}

  RecordStore(RecordStore&&) = default;

  // Keeps a copy of `record` in memory.
  void Add(absl::string_view record);

  // What is added with AddInPlace from here on is in `file`, which is the store's now.
  void BeginFile(InPlaceFile file) { files_.push_back(std::move(file)); }

  // The last file.
  const InPlaceFile& file() const { return files_.back(); }

  // `count` records of `bytes` bytes each, the first of them at `offset` of the last file.
  // REQUIRES: the file has them.
  void AddInPlace(uint64_t offset, uint32_t bytes, uint64_t count = 1);

  uint64_t size() const { return size_; }

  // Of the records that are in memory, and of the index of all.
  uint64_t kept_bytes() const { return record_bytes_ + runs_.size() * sizeof(Run); }

  // The most that is kept while a record is added that takes `bytes` bytes of memory, 0 in place:
  // an index that grows is there twice meanwhile. At least kept_bytes().
  uint64_t KeptWhileAdding(uint64_t bytes) const;

  // The bytes of a record: they are in memory, where this is no copy, or are read into `scratch`.
  // They are good until the store or `scratch` changes. Blocks while it reads. Errors as
  // InPlaceFile::ReadAt; INVALID_ARGUMENT: the record's checksum is wrong. REQUIRES: index <
  // size().
  absl::StatusOr<absl::string_view> Get(uint64_t index, std::string* scratch) const;

 private:
  // Records of one length that stand at equal distances in one holder, which is a chunk of memory
  // or a file. An index of whole files costs a run each, one of records of different lengths a run
  // for each record.
  struct Run {
    uint64_t first;   // Record.
    uint64_t offset;  // Of the first record's bytes.
    uint32_t bytes;   // Of each record.
    uint32_t holder;  // Of chunks_ or, with kInFile, of files_.
  };
  static constexpr uint32_t kInFile = uint32_t{1} << 31;

  void Append(const Run& run, uint64_t count);
  uint64_t OffsetIn(const Run& run, uint64_t index) const;

  RecordLayout layout_;
  uint64_t size_ = 0;
  uint64_t record_bytes_ = 0;  // In chunks_.
  std::vector<Run> runs_;
  std::vector<std::string> chunks_;
  std::vector<InPlaceFile> files_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_RECORD_STORE_H_
