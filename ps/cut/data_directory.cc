// DIRECTORY_ID tells what the directory is: a first line with the format and its version, a second
// one with the directory's id. It is written under another name, synced and renamed, before
// anything else is put there; so a directory without it is either empty, or not ours.
#include "ps/cut/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace millrace::ps {
namespace {

namespace fs = std::filesystem;

constexpr char kIdFile[] = "DIRECTORY_ID";
// Begins the names of files that are to become it.
constexpr char kTemporaryIdFile[] = "DIRECTORY_ID.new";
constexpr char kFormat[] = "millrace ps data directory, format ";
constexpr char kFormatVersion[] = "1";

absl::Status SystemError(absl::string_view operation, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", operation, " ", path));
}

// What is in the directory, without the leftovers of a start that was cut short.
absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!absl::StartsWith(name, kTemporaryIdFile)) names.push_back(name);
  }
  if (error) return SystemError("list the data directory", path, error.value());
  return names;
}

absl::Status WriteAndSync(int fd, const std::string& path, const std::string& text) {
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return SystemError("write", path, errno);
  }
  if (fsync(fd) != 0) return SystemError("sync", path, errno);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (fsync(fd) != 0) return SystemError("sync", path, errno);
  return absl::OkStatus();
}

absl::Status WriteIdFile(const std::string& directory) {
  absl::BitGen random;
  const std::string text =
      absl::StrFormat("%s%s\n%016x%016x\n", kFormat, kFormatVersion,
                      absl::Uniform<uint64_t>(random), absl::Uniform<uint64_t>(random));
  // A name of its own, so that servers that start at once do not write into each other's.
  std::string temporary = absl::StrCat(directory, "/", kTemporaryIdFile, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return SystemError("make", temporary, errno);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  MILLRACE_RETURN_IF_ERROR(WriteAndSync(fd, temporary, text));
  // Fails where another server that starts now was faster.
  const std::string final_name = absl::StrCat(directory, "/", kIdFile);
  if (link(temporary.c_str(), final_name.c_str()) != 0 && errno != EEXIST) {
    return SystemError("make", final_name, errno);
  }
  unlink(temporary.c_str());
  return SyncDirectory(directory);
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

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  char buffer[1024];
  const ssize_t size = pread(fd, buffer, sizeof(buffer), 0);
  if (size < 0) return SystemError("read", path, errno);
  return std::string(buffer, static_cast<size_t>(size));
}

// Makes the directory and its id file where they are not there yet.
absl::Status Prepare(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return SystemError("make the data directory", path, error.value());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListEntries(path));
  if (entries.empty()) return WriteIdFile(path);
  for (const std::string& name : entries) {
    if (name == kIdFile) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the directory ", path, " is not a ps server's data directory: it has '", entries[0],
      "' in it and no ", kIdFile, "; give an empty directory, or one that a ps server made"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("data_dir: empty; must be a directory");
  MILLRACE_RETURN_IF_ERROR(Prepare(path));
  const std::string id_file = absl::StrCat(path, "/", kIdFile);
  const int fd = open(id_file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", id_file, errno);
  // Owns the descriptor from here on.
  std::unique_ptr<DataDirectory> directory(new DataDirectory(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("lock", id_file, errno);
    return absl::UnavailableError(
        absl::StrCat("the data directory ", path,
                     " is in use by a running server; stop that one, or give another directory"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadAll(fd, id_file));
  MILLRACE_ASSIGN_OR_RETURN(directory->id_, ParseIdFile(path, text));
  return directory;
}

DataDirectory::DataDirectory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

DataDirectory::~DataDirectory() { close(fd_); }

}  // namespace millrace::ps
