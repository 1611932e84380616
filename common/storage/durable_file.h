// Files that are there wholly or not at all, whenever the machine stops.
#ifndef MILLRACE_COMMON_STORAGE_DURABLE_FILE_H_
#define MILLRACE_COMMON_STORAGE_DURABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocksdb {
class FileSystem;
class FSWritableFile;
}  // namespace rocksdb

namespace millrace {

// What all our files go through, those of RocksDB too: tests put one in between that fails. Never
// null.
using FileSystemPtr = std::shared_ptr<rocksdb::FileSystem>;

// The system's.
FileSystemPtr RealFileSystem();

// Writes a new file beside PATH, PATH.tmp-RANDOM, piece by piece; Commit() makes it PATH. Without a
// Commit() nothing is left, unless the process is killed. Files to one path do not meet: the last
// Commit() wins. Not thread-safe. Every error names the file, the operation and the system's
// reason; UNAVAILABLE: the disk fails or is full.
class DurableFile {
 public:
  static absl::StatusOr<DurableFile> Create(const FileSystemPtr& file_system,
                                            const std::string& path);

  DurableFile(DurableFile&& other) noexcept;
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  absl::Status Append(absl::string_view bytes);

  // Syncs the file, renames it, and syncs the directory: it is on the disk when this returns OK.
  // REQUIRES: called at most once, last.
  absl::Status Commit();

 private:
  DurableFile(FileSystemPtr file_system, std::string path, std::string temporary,
              std::unique_ptr<rocksdb::FSWritableFile> file);

  FileSystemPtr file_system_;
  std::string path_;
  std::string temporary_;
  std::unique_ptr<rocksdb::FSWritableFile> file_;  // nullptr: committed, or moved away.
};

// A whole file at once.
absl::Status WriteDurably(const FileSystemPtr& file_system, const std::string& path,
                          absl::string_view text);

// NOT_FOUND: there is none.
absl::StatusOr<std::string> ReadWholeFile(const FileSystemPtr& file_system,
                                          const std::string& path);

// Why nothing can be at this path: "Not a directory" (of what is above it), "File name too long".
// Empty: something can.
std::string WhyNothingCanBeAt(const std::string& path);

// What was renamed or made in the directory lasts from now on.
absl::Status SyncDirectory(const FileSystemPtr& file_system, const std::string& directory);

// Bytes that this process may still write to the file system that has `path`.
absl::StatusOr<uint64_t> FreeBytes(const FileSystemPtr& file_system, const std::string& path);

// "." for a path without a directory.
std::string DirectoryOf(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_DURABLE_FILE_H_
