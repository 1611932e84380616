#include "worker/input/in_place_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::worker {

absl::StatusOr<InPlaceFile> InPlaceFile::Open(const std::string& path, const std::string& field) {
  InPlaceFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC), path, field);
  MILLRACE_RETURN_IF_ERROR(file.CheckOpen());
  MILLRACE_ASSIGN_OR_RETURN(file.state_, file.Look());
  return file;
}

absl::StatusOr<InPlaceFile> InPlaceFile::Open(const InputFile& read) {
  InPlaceFile file(fcntl(read.descriptor(), F_DUPFD_CLOEXEC, 0), read.path(), read.field());
  MILLRACE_RETURN_IF_ERROR(file.CheckOpen());
  file.state_ = read.state();
  return file;
}

absl::Status InPlaceFile::CheckOpen() const {
  if (descriptor_ >= 0) return absl::OkStatus();
  if (errno != EMFILE && errno != ENFILE) return SystemError("open it");
  return absl::UnavailableError(absl::StrCat(
      field_, ": ", path_, ": cannot open it: ", std::strerror(errno),
      "; files of sets that do not fit into memory stay open: raise the limit (ulimit -n)"));
}

InPlaceFile::InPlaceFile(int descriptor, std::string path, std::string field)
    : descriptor_(descriptor), path_(std::move(path)), field_(std::move(field)) {}

InPlaceFile::InPlaceFile(InPlaceFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      field_(std::move(other.field_)),
      state_(other.state_) {}

InPlaceFile::~InPlaceFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status InPlaceFile::ReadAt(uint64_t offset, absl::Span<char> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(absl::StrCat("read at offset ", offset));
    if (got == 0) return Error(absl::StrCat("has changed: it ends at offset ", offset));
    bytes.remove_prefix(got);
    offset += got;
  }
  return CheckUnchanged();
}

absl::Status InPlaceFile::CheckUnchanged() const {
  MILLRACE_ASSIGN_OR_RETURN(const FileState now, Look());
  if (now == state_) return absl::OkStatus();
  const std::string how = now.size == state_.size
                              ? "its time is another"
                              : absl::StrCat(state_.size, " bytes then, ", now.size, " now");
  return Error(
      absl::StrCat("has changed since it was opened (", how, "); write new data under a new name"));
}

absl::Status InPlaceFile::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(field_, ": ", path_, ": ", message));
}

absl::StatusOr<FileState> InPlaceFile::Look() const {
  const absl::optional<FileState> state = LookAtFile(descriptor_);
  if (!state.has_value()) return SystemError("look at it");
  return *state;
}

absl::Status InPlaceFile::SystemError(const std::string& operation) const {
  return absl::UnavailableError(
      absl::StrCat(field_, ": ", path_, ": cannot ", operation, ": ", std::strerror(errno)));
}

}  // namespace millrace::worker
