#include "common/net/published_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

absl::Status Failure(absl::string_view what) {
  return absl::UnavailableError(
      absl::ErrnoToStatus(errno, absl::StrCat("certificates in memory: ", what)).message());
}

absl::StatusOr<int> NewFile(absl::string_view contents) {
  const int fd = memfd_create("millrace", MFD_CLOEXEC);
  if (fd < 0) return Failure("memfd_create");
  if (write(fd, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size())) {
    return fd;
  }
  const absl::Status failure = Failure("write");
  close(fd);
  return failure;
}

}  // namespace

absl::StatusOr<PublishedFile> PublishedFile::Make(absl::string_view contents) {
  MILLRACE_ASSIGN_OR_RETURN(const int fd, NewFile(contents));
  PublishedFile file(fd);
  const std::string path = file.path();
  if (access(path.c_str(), R_OK) != 0) return Failure(absl::StrCat("/proc must be there: ", path));
  return file;
}

PublishedFile::~PublishedFile() {
  if (fd_ >= 0) close(fd_);
}

std::string PublishedFile::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

absl::Status PublishedFile::Replace(absl::string_view contents) {
  MILLRACE_ASSIGN_OR_RETURN(const int fd, NewFile(contents));
  const bool replaced = dup3(fd, fd_, O_CLOEXEC) == fd_;
  const absl::Status status = replaced ? absl::OkStatus() : Failure("dup3");
  close(fd);
  return status;
}

}  // namespace millrace
