// Memory that the disk stands in for.
#ifndef MILLRACE_CLIENT_SPOOL_FILE_H_
#define MILLRACE_CLIENT_SPOOL_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::client {

// Floats in a file without a name: the system writes them out where memory is short, so that there
// may be more of them than memory. Gone with its owner, however that ends.
class SpoolFile {
 public:
  // All 0, on the disk that has `directory`. RESOURCE_EXHAUSTED and others: it cannot be made there
  // or has no room; names the directory.
  static absl::StatusOr<SpoolFile> Create(const std::string& directory, uint64_t floats);

  SpoolFile(SpoolFile&& other) noexcept;
  SpoolFile& operator=(SpoolFile&& other) noexcept;
  ~SpoolFile();

  absl::Span<float> values() const { return values_; }

 private:
  explicit SpoolFile(absl::Span<float> values) : values_(values) {}

  absl::Span<float> values_;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_SPOOL_FILE_H_
