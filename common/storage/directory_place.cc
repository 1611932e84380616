#include "common/storage/directory_place.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/system_error.h"

namespace millrace {

int DirectoryPlace::Find(const std::string& path, Id* id) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return errno;
  *id = Id(found.st_dev, found.st_ino);
  return 0;
}

absl::StatusOr<DirectoryPlace> DirectoryPlace::Of(const std::string& path) {
  Id id;
  if (const int error = Find(path, &id); error != 0) return SystemError("examine", path, error);
  return DirectoryPlace(path, id);
}

absl::Status DirectoryPlace::Check() const {
  Id id;
  const int error = Find(path_, &id);
  // Other errors do not say where it is; reading and writing tell whether they matter.
  const bool lost = error == ENOENT || error == ENOTDIR || (error == 0 && id != id_);
  if (!lost) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the directory ", path_,
                                             " is no longer there (it was deleted or moved); ",
                                             "restore it and start the server again"));
}

}  // namespace millrace
