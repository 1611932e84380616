// DIRECTORY_ID tells what the directory is: a first line with the format and its version, a second
// one with the directory's id. It is written under another name, synced and renamed, before
// anything else is put there; so a directory without it is either empty, or not ours.
#include "ps/cut/data_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/random_token.h"
#include "common/status_macros.h"
#include "common/system_error.h"

namespace millrace::ps {
namespace {

namespace fs = std::filesystem;

constexpr char kIdFile[] = "DIRECTORY_ID";
// Begins the names of files that are to become it.
constexpr char kTemporaryIdFile[] = "DIRECTORY_ID.tmp";
constexpr char kFormat[] = "millrace ps data directory, format ";
constexpr char kFormatVersion[] = "2";

// What is in the directory, without the leftovers of a start that was cut short.
absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name != kLockFile && !absl::StartsWith(name, kTemporaryIdFile)) names.push_back(name);
  }
  if (error) return SystemError("list the data directory", path, error.value());
  return names;
}

absl::Status WriteIdFile(const FileSystemPtr& file_system, const std::string& directory) {
  return WriteDurably(file_system, absl::StrCat(directory, "/", kIdFile),
                      absl::StrCat(kFormat, kFormatVersion, "\n", RandomToken(), "\n"));
}

// The directory's id, from the text of its file.
absl::StatusOr<std::string> ParseIdFile(const std::string& directory, const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!absl::StartsWith(lines[0], kFormat) || lines.size() < 2 || lines[1].empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the data directory ", directory, " is not a ps server's: its ", kIdFile, " begins with '",
        lines[0].substr(0, 100), "'; give each server a directory of its own"));
  }
  if (lines[0] != absl::StrCat(kFormat, kFormatVersion)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory ", directory, " has '", lines[0].substr(0, 100),
                     "', and this program reads format ", kFormatVersion,
                     "; run the version of the program that made it, or give an empty directory"));
  }
  return lines[1];
}

// Whether there is an id file. What is there instead of one must not be touched.
absl::StatusOr<bool> HasIdFile(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListEntries(path));
  if (entries.empty()) return false;
  if (std::count(entries.begin(), entries.end(), kIdFile) > 0) return true;
  return absl::FailedPreconditionError(absl::StrCat(
      "the directory ", path, " is not a ps server's data directory: it has '", entries[0],
      "' in it and no ", kIdFile, "; give an empty directory, or one that a ps server made"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(
    const std::string& path, const FileSystemPtr& file_system) {
  if (path.empty()) return absl::InvalidArgumentError("data_dir: empty; must be a directory");
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return SystemError("make the data directory", path, error.value());
  MILLRACE_RETURN_IF_ERROR(HasIdFile(path).status());
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<DirectoryLock> lock, DirectoryLock::Take(path));
  // Again: another server may have made it meanwhile.
  MILLRACE_ASSIGN_OR_RETURN(const bool made, HasIdFile(path));
  if (!made) MILLRACE_RETURN_IF_ERROR(WriteIdFile(file_system, path));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            ReadWholeFile(file_system, absl::StrCat(path, "/", kIdFile)));
  MILLRACE_ASSIGN_OR_RETURN(std::string id, ParseIdFile(path, text));
  return std::unique_ptr<DataDirectory>(new DataDirectory(path, std::move(id), std::move(lock)));
}

DataDirectory::DataDirectory(std::string path, std::string id, std::unique_ptr<DirectoryLock> lock)
    : path_(std::move(path)), id_(std::move(id)), lock_(std::move(lock)) {}

}  // namespace millrace::ps
