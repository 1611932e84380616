#include "worker/input/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

constexpr unsigned kBufferBytes = 256 << 10;
constexpr size_t kMaxReadBytes = size_t{1} << 30;  // zlib counts in int.

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

// zlib puts "<fd:7>: ", as it calls a file, before what it says.
absl::string_view WithoutDescriptor(absl::string_view message) {
  const size_t end = absl::StartsWith(message, "<fd:") ? message.find(">: ") : message.npos;
  return end == message.npos ? message : message.substr(end + 3);
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& directory, const std::string& name,
                                          const std::string& field) {
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": empty; it names a file of the data"));
  }
  const bool absolute = name[0] == '/';
  if (!absolute && directory.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.directory: empty, but ", field, " is '", name,
                     "'; say where the files are with --data=DIR or in the job"));
  }
  std::string path = absolute ? name : absl::StrCat(directory, "/", name);
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
  InputFile file(std::move(path), std::move(shown), field);
  MILLRACE_RETURN_IF_ERROR(file.OpenPath());
  return file;
}

absl::Status InputFile::OpenPath() {
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const auto state = descriptor < 0 ? absl::nullopt : LookAtFile(descriptor);
  errno =
      state.has_value() ? ENOMEM : errno;  // The only failure of gzdopen, which does not say so.
  if (state.has_value()) file_ = gzdopen(descriptor, "rb");
  if (file_ == nullptr) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    const std::string message =
        absl::StrCat(field_, ": ", path_, ": cannot open it: ", std::strerror(error));
    // What the system lacks now says nothing about the file.
    const bool may_pass =
        error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO || error == EINTR;
    return may_pass ? absl::UnavailableError(message) : absl::InvalidArgumentError(message);
  }
  descriptor_ = descriptor;
  state_ = *state;
  gzbuffer(file_, kBufferBytes);
  return absl::OkStatus();
}

InputFile::InputFile(std::string path, std::string name, std::string field)
    : path_(std::move(path)), name_(std::move(name)), field_(std::move(field)) {}

InputFile::InputFile(InputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      state_(other.state_),
      path_(std::move(other.path_)),
      name_(std::move(other.name_)),
      field_(std::move(other.field_)),
      offset_(other.offset_) {}

InputFile::~InputFile() {
  if (file_ != nullptr) gzclose_r(file_);
}

bool InputFile::compressed() const { return gzdirect(file_) == 0; }

absl::StatusOr<size_t> InputFile::Read(absl::Span<char> buffer) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    const size_t wanted = std::min(buffer.size() - filled, kMaxReadBytes);
    const int got = gzread(file_, buffer.data() + filled, static_cast<unsigned>(wanted));
    if (got > 0) {
      filled += got;
      offset_ += got;
    }
    // A truncated stream gives what there is of it, and says so only when asked.
    if (got < static_cast<int>(wanted)) {
      if (absl::Status error = ReadError(); !error.ok()) return error;
      break;
    }
  }
  return filled;
}

absl::Status InputFile::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(field_, ": ", path_, ": ", message));
}

absl::Status InputFile::ErrorAt(uint64_t line, uint64_t column, const std::string& message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(field_, ": ", path_, ":", line, ":", column, ": ", message));
}

absl::Status InputFile::ReadError() const {
  int code = Z_OK;
  const std::string message = gzerror(file_, &code);
  switch (code) {
    case Z_OK:
      return absl::OkStatus();
    case Z_BUF_ERROR:
      return Error(absl::StrCat("truncated at offset ", offset_,
                                " of the uncompressed data: the gzip stream has no end"));
    case Z_ERRNO:
    case Z_MEM_ERROR:
      return absl::UnavailableError(
          absl::StrCat(field_, ": ", path_, ": cannot read at offset ", offset_, ": ", message));
    default:
      return Error(
          absl::StrCat("corrupt after offset ", offset_,
                       " of the uncompressed data: damaged gzip: ", WithoutDescriptor(message)));
  }
}

}  // namespace millrace::worker
