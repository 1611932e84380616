#include "client/output_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/storage/durable_file.h"
#include "common/system_error.h"

namespace millrace::client {
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
    return SystemError(absl::StrCat("write ", path, ": cannot make files in"), directory, errno);
  }
  return absl::OkStatus();
}

}  // namespace millrace::client
