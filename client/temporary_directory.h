// A directory that goes when its owner does.
#ifndef MILLRACE_CLIENT_TEMPORARY_DIRECTORY_H_
#define MILLRACE_CLIENT_TEMPORARY_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/storage/directory_lock.h"

namespace millrace::client {

// Thread-safe.
class TemporaryDirectory {
 public:
  // Makes a new directory, for this user alone, under TMPDIR or /tmp, and removes those there that
  // processes of this user have left that were killed. Errors name it.
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create();

  // Removes it and all that is in it. What cannot be removed is logged.
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory(std::string path, std::unique_ptr<DirectoryLock> lock);

  const std::string path_;
  const std::unique_ptr<DirectoryLock> lock_;  // Says that it is in use.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TEMPORARY_DIRECTORY_H_
