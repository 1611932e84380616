// A file that appears whole or not at all.
#ifndef MILLRACE_CLIENT_ATOMIC_FILE_H_
#define MILLRACE_CLIENT_ATOMIC_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::client {

// Writes a new file beside PATH, PATH.tmp-RANDOM, piece by piece; Commit() makes it PATH. Without a
// Commit() nothing is left, unless the process is killed. Files to one path do not meet: the last
// Commit() wins. Not thread-safe. Every error names the file, the operation and the system's
// reason.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  absl::Status Append(absl::string_view bytes);

  // Flushes to the disk, renames, and flushes the directory. REQUIRES: called at most once, last.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int descriptor);

  std::string path_;
  std::string temporary_;
  int descriptor_;  // -1: committed, or moved away.
};

// Whether a file can be made at `path`: its directory is there and can be written to, and what is
// at `path` now, if anything, is a file that may be replaced: no directory and no device. For
// telling a user early; it says nothing of what happens later.
absl::Status CheckCanCreate(const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_ATOMIC_FILE_H_
