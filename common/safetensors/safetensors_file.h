// Safetensors files, read and written piece by piece: memory does not grow with them.
#ifndef MILLRACE_COMMON_SAFETENSORS_SAFETENSORS_FILE_H_
#define MILLRACE_COMMON_SAFETENSORS_SAFETENSORS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/safetensors/safetensors_header.h"
#include "common/storage/durable_file.h"

namespace rocksdb {
class FSRandomAccessFile;
}  // namespace rocksdb

namespace millrace {

// A file that is read at any place. Thread-safe; calls block on the disk.
class RandomAccessReader {
 public:
  // NOT_FOUND: there is none; UNAVAILABLE: it cannot be read now; INVALID_ARGUMENT: it is no
  // regular file: others may have no end, or block whoever opens them.
  static absl::StatusOr<RandomAccessReader> Open(const FileSystemPtr& file_system,
                                                 const std::string& path);
  RandomAccessReader(RandomAccessReader&&) noexcept;
  RandomAccessReader& operator=(RandomAccessReader&&) noexcept;
  ~RandomAccessReader();

  const std::string& path() const { return path_; }
  // When it was opened.
  uint64_t bytes() const { return bytes_; }
  // Fills `target` from there on. DATA_LOSS: the file ends before; UNAVAILABLE.
  absl::Status Read(uint64_t offset, absl::Span<char> target) const;

 private:
  RandomAccessReader(std::string path, uint64_t bytes,
                     std::unique_ptr<rocksdb::FSRandomAccessFile> file);

  std::string path_;
  uint64_t bytes_;
  std::unique_ptr<rocksdb::FSRandomAccessFile> file_;
};

// Thread-safe; calls block on the disk.
class SafetensorsReader {
 public:
  // NOT_FOUND, UNAVAILABLE as above; INVALID_ARGUMENT: it is not such a file.
  static absl::StatusOr<SafetensorsReader> Open(const FileSystemPtr& file_system,
                                                const std::string& path);

  const std::string& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  // Index in header().tensors; nothing if there is none of the name.
  absl::optional<size_t> Find(absl::string_view name) const;

  // Elements [begin, begin + values.size()) of a tensor, row-major; F64, F16 and BF16 are converted
  // (F64: rounded to the nearest float). INVALID_ARGUMENT: a tensor of another type, or an F64 that
  // is finite and too large for a float;
  // OUT_OF_RANGE: it has no such elements; DATA_LOSS, UNAVAILABLE.
  absl::Status Read(size_t tensor, uint64_t begin, absl::Span<float> values) const;

 private:
  SafetensorsReader(RandomAccessReader file, SafetensorsHeader header);

  RandomAccessReader file_;
  SafetensorsHeader header_;
};

// True of "F32", "F64", "F16" and "BF16".
bool IsReadableAsFloat(absl::string_view dtype);

// Writes a file beside `path` and renames it, as DurableFile does: without Finish() nothing is
// left. Not thread-safe; calls block on the disk.
class SafetensorsWriter {
 public:
  // Statuses as for EncodeSafetensorsHeader and DurableFile::Create.
  static absl::StatusOr<SafetensorsWriter> Create(const FileSystemPtr& file_system,
                                                  const std::string& path,
                                                  SafetensorsHeader header);

  // The values, in the order of header().tensors and row-major; a call may end anywhere.
  absl::Status Append(absl::string_view bytes);
  absl::Status Append(absl::Span<const float> values);
  const SafetensorsHeader& header() const { return header_; }

  // FAILED_PRECONDITION: not as many bytes came as the header says. REQUIRES: called once, last.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::string path, DurableFile file, SafetensorsHeader header);

  std::string path_;
  DurableFile file_;
  SafetensorsHeader header_;
  uint64_t written_ = 0;  // Of the values.
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_SAFETENSORS_SAFETENSORS_FILE_H_
