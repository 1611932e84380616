#include "client/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// From errno.
absl::Status SystemError(absl::string_view operation, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", operation, " ", path));
}

std::string TemporaryPath(const std::string& path) {
  absl::BitGen random;
  return absl::StrFormat("%s.tmp-%016x", path, absl::Uniform<uint64_t>(random));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Makes a rename in the directory last.
absl::Status SyncDirectory(const std::string& directory) {
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open the directory", directory);
  absl::Status status;
  if (fsync(descriptor) != 0) status = SystemError("flush the directory", directory);
  close(descriptor);
  return status;
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  std::string temporary = TemporaryPath(path);
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return SystemError("create", temporary);
  return AtomicFile(path, std::move(temporary), descriptor);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError("write", temporary_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(descriptor_) != 0) return SystemError("flush", temporary_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return SystemError(absl::StrCat("rename ", temporary_, " to"), path_);
  }
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) return SystemError("close", path_);
  return SyncDirectory(DirectoryOf(path_));
}

absl::Status CheckCanCreate(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": it is ",
                     S_ISDIR(found.st_mode) ? "a directory" : "no ordinary file",
                     "; name a file that may be replaced"));
  }
  const std::string directory = DirectoryOf(path);
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    return SystemError(absl::StrCat("write ", path, ": cannot make files in"), directory);
  }
  return absl::OkStatus();
}

}  // namespace millrace::client
