// A directory that goes when its owner does.
#ifndef MILLRACE_CLIENT_TEMPORARY_DIRECTORY_H_
#define MILLRACE_CLIENT_TEMPORARY_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::client {

// Thread-safe.
class TemporaryDirectory {
 public:
  // Makes a new directory, for this user alone, under TMPDIR or /tmp. Errors name it.
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create();

  // Removes it and all that is in it. What cannot be removed is logged.
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path);

  const std::string path_;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TEMPORARY_DIRECTORY_H_
