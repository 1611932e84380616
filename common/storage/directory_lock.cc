#include "common/storage/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kLockFile);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  // Owns the descriptor from here on.
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
  return absl::UnavailableError(
      absl::StrCat("the directory ", directory,
                   " is in use by a running server; stop that one, or give another directory"));
}

DirectoryLock::~DirectoryLock() { close(fd_); }

}  // namespace millrace
