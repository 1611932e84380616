#include "ps/block/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/system_error.h"

namespace millrace::ps {
int ReserveWithFallocate(int fd, size_t bytes) {
  int error;
  do {
    error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Create(const std::string& path,
                                                               size_t bytes,
                                                               const ReserveFile& reserve) {
  unlink(path.c_str());
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (fd < 0) return SystemError("make", path, errno);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  absl::StatusOr<std::unique_ptr<MappedFile>> file;
  if (const int error = reserve(fd, bytes); error != 0) {
    file = SystemError(absl::StrCat("set ", bytes, " bytes of memory aside for"), path, error);
  } else {
    // The pages are there: mapping them now costs less than one fault for each.
    file = Map(path, fd, bytes, MAP_POPULATE);
  }
  if (!file.ok()) unlink(path.c_str());
  return file;
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return SystemError("open", path, errno);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat status;
  if (fstat(fd, &status) != 0) return SystemError("examine", path, errno);
  if (status.st_size == 0) return absl::DataLossError(absl::StrCat(path, " is empty"));
  return Map(path, fd, static_cast<size_t>(status.st_size), /*flags=*/0);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Map(const std::string& path, int fd,
                                                            size_t bytes, int flags) {
  struct stat status;
  if (fstat(fd, &status) != 0) return SystemError("examine", path, errno);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  return std::unique_ptr<MappedFile>(new MappedFile(path, status, static_cast<char*>(data), bytes));
}

MappedFile::MappedFile(std::string path, const struct stat& status, char* data, size_t size)
    : path_(std::move(path)),
      device_(status.st_dev),
      inode_(status.st_ino),
      data_(data),
      size_(size) {}

MappedFile::~MappedFile() { munmap(data_, size_); }

absl::Status MappedFile::Rename(const std::string& path) {
  if (std::rename(path_.c_str(), path.c_str()) != 0) return SystemError("rename", path_, errno);
  path_ = path;
  return absl::OkStatus();
}

void MappedFile::Unlink() {
  struct stat there;
  if (lstat(path_.c_str(), &there) != 0) return;
  if (there.st_dev == device_ && there.st_ino == inode_) unlink(path_.c_str());
}

}  // namespace millrace::ps
