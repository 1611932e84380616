// What tells that a file has been written to.
#ifndef MILLRACE_WORKER_INPUT_FILE_STATE_H_
#define MILLRACE_WORKER_INPUT_FILE_STATE_H_

#include <sys/stat.h>

#include <cstdint>

#include "absl/types/optional.h"

namespace millrace::worker {

struct FileState {
  uint64_t size = 0;
  int64_t modified_seconds = 0;
  int64_t modified_nanoseconds = 0;

  bool operator==(const FileState&) const = default;
};

// Of an open file. Nothing: errno says why.
inline absl::optional<FileState> LookAtFile(int descriptor) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return absl::nullopt;
  return FileState{static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_FILE_STATE_H_
