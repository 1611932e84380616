// Whether a directory is where it was opened.
#ifndef MILLRACE_COMMON_STORAGE_DIRECTORY_PLACE_H_
#define MILLRACE_COMMON_STORAGE_DIRECTORY_PLACE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// Thread-safe. REQUIRES: something in the directory, or itself, stays open: or another one may get
// its inode.
class DirectoryPlace {
 public:
  // Of the directory that is at `path` now. Statuses as for SystemError.
  static absl::StatusOr<DirectoryPlace> Of(const std::string& path);

  // UNAVAILABLE: the directory is not at its path any more: what is written to it is lost. Asks the
  // system, which takes no long time.
  absl::Status Check() const;

 private:
  using Id = std::pair<uint64_t, uint64_t>;  // Device and inode.

  DirectoryPlace(std::string path, Id id) : path_(std::move(path)), id_(id) {}
  // Returns 0, or an errno.
  static int Find(const std::string& path, Id* id);

  std::string path_;
  Id id_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_DIRECTORY_PLACE_H_
