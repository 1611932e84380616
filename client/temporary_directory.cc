#include "client/temporary_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::client {
namespace {

constexpr char kPrefix[] = "millrace-";
constexpr char kPattern[] = "millrace-XXXXXX";

bool IsOfThisUser(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

void RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) LOG(WARNING) << "cannot remove " << path << ": " << error.message();
}

void RemoveWhatWasLeft(const std::string& parent) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(parent, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    const std::string name = it->path().filename().string();
    std::error_code none;
    if (!absl::StartsWith(name, kPrefix) || name.size() + 1 != sizeof(kPattern) ||
        !IsOfThisUser(path) || !std::filesystem::exists(path + "/" + kLockFile, none)) {
      continue;
    }
    const auto lock = DirectoryLock::Take(path);
    if (!lock.ok()) continue;
    LOG(INFO) << "removes " << path << ", which a process that was killed has left";
    RemoveAll(path);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::Create() {
  const char* variable = std::getenv("TMPDIR");
  const std::string parent = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  RemoveWhatWasLeft(parent);
  while (true) {
    std::string path = absl::StrCat(parent, "/", kPattern);
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot make a temporary directory ", path, " (TMPDIR says where)"));
    }
    auto lock = DirectoryLock::Take(path);
    // Before it was locked, another process may have taken it for one that was left.
    std::error_code error;
    if (lock.ok() && std::filesystem::exists(path + "/" + kLockFile, error)) {
      return std::unique_ptr<TemporaryDirectory>(
          new TemporaryDirectory(std::move(path), *std::move(lock)));
    }
    if (!lock.ok() && !absl::IsUnavailable(lock.status()) && !absl::IsNotFound(lock.status())) {
      RemoveAll(path);
      return lock.status();
    }
  }
}

TemporaryDirectory::TemporaryDirectory(std::string path, std::unique_ptr<DirectoryLock> lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

TemporaryDirectory::~TemporaryDirectory() { RemoveAll(path_); }

}  // namespace millrace::client
