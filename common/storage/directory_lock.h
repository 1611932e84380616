// One running server for each directory.
#ifndef MILLRACE_COMMON_STORAGE_DIRECTORY_LOCK_H_
#define MILLRACE_COMMON_STORAGE_DIRECTORY_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace millrace {

// The name of the lock's file in the directory.
inline constexpr char kLockFile[] = "DIRECTORY_LOCK";

// A lock on a directory, of this process, as long as the object lives. The system gives it back
// when the process ends in any way; the file stays.
class DirectoryLock {
 public:
  // UNAVAILABLE: another object, of this process or of another, has it; the message names the
  // directory.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const std::string& directory);

  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  const int fd_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_DIRECTORY_LOCK_H_
