#include "client/spool_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/system_error.h"

namespace millrace::client {
namespace {

// A descriptor, or -1 with errno.
int OpenNameless(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = absl::StrCat(directory, "/.millrace-spool-XXXXXX");
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

// A mapping of the file, which is made as large; MAP_FAILED with errno otherwise.
void* ReserveAndMap(int file, uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    errno = EFBIG;
    return MAP_FAILED;
  }
  // Without the room a write to the mapping would end the process.
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

}  // namespace

absl::StatusOr<SpoolFile> SpoolFile::Create(const std::string& directory, uint64_t floats) {
  if (floats == 0) return SpoolFile(absl::Span<float>());
  const int file = OpenNameless(directory);
  if (file < 0) return SystemError("make a temporary file in", directory, errno);
  void* const mapping = ReserveAndMap(file, floats * sizeof(float));
  const int error = errno;
  close(file);  // The mapping keeps the file.
  if (mapping == MAP_FAILED) {
    return SystemError(
        absl::StrCat("reserve ", floats * sizeof(float), " bytes for a temporary file in"),
        directory, error);
  }
  return SpoolFile(absl::MakeSpan(static_cast<float*>(mapping), floats));
}

SpoolFile::SpoolFile(SpoolFile&& other) noexcept
    : values_(std::exchange(other.values_, absl::Span<float>())) {}

SpoolFile& SpoolFile::operator=(SpoolFile&& other) noexcept {
  std::swap(values_, other.values_);
  return *this;
}

SpoolFile::~SpoolFile() {
  if (!values_.empty()) munmap(values_.data(), values_.size() * sizeof(float));
}

}  // namespace millrace::client
