#include "worker/input/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

bool IsAbsent(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

// Whether a file that is there can be opened, as a message that is empty if so. Opening a pipe
// would block, and reading a directory fails with an obscure message.
std::string WhyNotRegular(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::strerror(errno);
  if (S_ISDIR(info.st_mode)) return "is a folder; name a file in it";
  if (!S_ISREG(info.st_mode)) return "is not a regular file";
  return "";
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const DataDirectory& directory, const std::string& name,
                                          const std::string& field) {
  MILLRACE_RETURN_IF_ERROR(CheckWanted(directory.stop));
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": empty; it names a file of the data"));
  }
  const bool absolute = name[0] == '/';
  if (!absolute && directory.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.directory: empty, but ", field, " is '", name,
                     "'; say where the files are with --data=DIR or in the job"));
  }
  std::string path = absolute ? name : absl::StrCat(directory.path, "/", name);
  std::string shown = name;
  if (IsAbsent(path)) {
    if (IsAbsent(path + ".gz")) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ": ", path,
          ": no such file, with or without .gz; the worker looks for it on its own machine"));
    }
    path += ".gz";
    shown += ".gz";
  }
  if (const std::string why = WhyNotRegular(path); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", path, ": ", why));
  }
  InputFile file(directory.stop, std::move(path), std::move(shown), field);
  MILLRACE_RETURN_IF_ERROR(file.OpenPath());
  return file;
}

absl::Status InputFile::OpenPath() {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const auto state = descriptor_ < 0 ? absl::nullopt : LookAtFile(descriptor_);
  if (!state.has_value()) {
    const int error = errno;
    const std::string message =
        absl::StrCat(field_, ": ", path_, ": cannot open it: ", std::strerror(error));
    // What the system lacks now says nothing about the file.
    const bool may_pass =
        error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO || error == EINTR;
    return may_pass ? absl::UnavailableError(message) : absl::InvalidArgumentError(message);
  }
  state_ = *state;
  content_ = std::make_unique<ContentReader>(descriptor_);
  return absl::OkStatus();
}

InputFile::InputFile(std::stop_token stop, std::string path, std::string name, std::string field)
    : stop_(std::move(stop)),
      path_(std::move(path)),
      name_(std::move(name)),
      field_(std::move(field)) {}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      content_(std::move(other.content_)),
      state_(other.state_),
      stop_(std::move(other.stop_)),
      path_(std::move(other.path_)),
      name_(std::move(other.name_)),
      field_(std::move(other.field_)),
      offset_(other.offset_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<size_t> InputFile::Read(absl::Span<char> buffer) {
  MILLRACE_RETURN_IF_ERROR(CheckWanted(stop_));
  const ContentReader::Got got = content_->Read(buffer);
  offset_ += got.bytes;
  if (!got.status.ok()) return ReadError(got.status);
  return got.bytes;
}

absl::Status InputFile::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(field_, ": ", path_, ": ", message));
}

absl::Status InputFile::ErrorAt(uint64_t line, uint64_t column, const std::string& message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(field_, ": ", path_, ":", line, ":", column, ": ", message));
}

absl::Status InputFile::ReadError(const absl::Status& error) const {
  switch (error.code()) {
    case absl::StatusCode::kOutOfRange:
      return Error(absl::StrCat("truncated at offset ", offset_,
                                " of the uncompressed data: ", error.message()));
    case absl::StatusCode::kDataLoss:
      return Error(absl::StrCat("corrupt after offset ", offset_,
                                " of the uncompressed data: damaged gzip: ", error.message()));
    default:
      return absl::UnavailableError(absl::StrCat(field_, ": ", path_, ": cannot read at offset ",
                                                 offset_, ": ", error.message()));
  }
}

}  // namespace millrace::worker
