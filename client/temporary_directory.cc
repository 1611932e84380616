#include "client/temporary_directory.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::client {

absl::StatusOr<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::Create() {
  const char* parent = std::getenv("TMPDIR");
  std::string path =
      absl::StrCat(parent == nullptr || *parent == '\0' ? "/tmp" : parent, "/millrace-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot make a temporary directory ", path, " (TMPDIR says where)"));
  }
  return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(std::move(path)));
}

TemporaryDirectory::TemporaryDirectory(std::string path) : path_(std::move(path)) {}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) LOG(WARNING) << "cannot remove " << path_ << ": " << error.message();
}

}  // namespace millrace::client
