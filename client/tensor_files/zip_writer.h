// Zip archives without compression, written from front to back.
#ifndef MILLRACE_CLIENT_TENSOR_FILES_ZIP_WRITER_H_
#define MILLRACE_CLIENT_TENSOR_FILES_ZIP_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/storage/durable_file.h"

namespace millrace::client {

// An archive at `path` once it is committed; see DurableFile. Files of any size and any number:
// with the fields of zip64 where they are needed. Not thread-safe.
class ZipWriter {
 public:
  // What a field of 32 bits cannot say any more; a test has it smaller.
  static constexpr uint64_t kZip64From = 0xFFFFFFFF;

  static absl::StatusOr<ZipWriter> Create(const FileSystemPtr& file_system, const std::string& path,
                                          uint64_t zip64_from = kZip64From);

  // Begins a file of `bytes` bytes, which Append brings. REQUIRES: the one before is complete; the
  // name has less than 2^16 bytes.
  absl::Status Begin(const std::string& name, uint64_t bytes);
  absl::Status Append(absl::string_view bytes);
  // REQUIRES: every byte of the file was appended.
  absl::Status End();

  // Writes the directory and commits. REQUIRES: every file is complete; once.
  absl::Status Commit();

 private:
  struct Entry {
    std::string name;
    uint64_t bytes = 0;
    uint64_t offset = 0;  // Of its local header.
    uint32_t crc = 0;
  };

  ZipWriter(DurableFile file, uint64_t zip64_from)
      : file_(std::move(file)), zip64_from_(zip64_from) {}

  bool Large(uint64_t number) const { return number >= zip64_from_; }
  absl::Status Write(absl::string_view bytes);
  std::string DirectoryEntry(const Entry& entry) const;
  std::string EndOfDirectory(uint64_t offset, uint64_t bytes) const;

  DurableFile file_;
  uint64_t zip64_from_;
  uint64_t written_ = 0;
  uint64_t missing_ = 0;  // Of the file that has begun.
  std::vector<Entry> entries_;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TENSOR_FILES_ZIP_WRITER_H_
