// A file whose bytes are memory.
#ifndef MILLRACE_PS_BLOCK_MAPPED_FILE_H_
#define MILLRACE_PS_BLOCK_MAPPED_FILE_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::ps {

// Sets memory aside for the first `bytes` of a file: 0, or an errno. May be replaced by tests.
using ReserveFile = std::function<int(int fd, size_t bytes)>;
int ReserveWithFallocate(int fd, size_t bytes);

// What is stored in it is there for whoever maps the file next, even when this process is killed.
class MappedFile {
 public:
  // A new file of zeroes, in the place of an older one. Its memory is set aside here, so that a
  // full file system is an error now and no SIGBUS later. RESOURCE_EXHAUSTED: it is full.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Create(const std::string& path, size_t bytes,
                                                            const ReserveFile& reserve);

  // DATA_LOSS: the file is empty: its making was cut short. NOT_FOUND.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);

  // The file stays.
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Takes the place of a file of that name, in one step.
  absl::Status Rename(const std::string& path);
  // Its memory is given back when nobody maps it any more. A newer file that has taken its place
  // stays.
  void Unlink();

 private:
  MappedFile(std::string path, const struct stat& status, char* data, size_t size);
  static absl::StatusOr<std::unique_ptr<MappedFile>> Map(const std::string& path, int fd,
                                                         size_t bytes, int flags);

  std::string path_;
  const dev_t device_;
  const ino_t inode_;
  char* const data_;
  const size_t size_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_BLOCK_MAPPED_FILE_H_
