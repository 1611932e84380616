// A file that is in memory alone, for whoever in this process wants to read one by its path.
#ifndef MILLRACE_COMMON_NET_PUBLISHED_FILE_H_
#define MILLRACE_COMMON_NET_PUBLISHED_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Whoever opens it reads the contents of that moment, whole. Not thread-safe.
class PublishedFile {
 public:
  // UNAVAILABLE: the system has no file for it, or no /proc.
  static absl::StatusOr<PublishedFile> Make(absl::string_view contents);

  // The path is another file's then, so nobody may use it any more.
  ~PublishedFile();
  PublishedFile(PublishedFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

  std::string path() const;

  // After an error the contents are what they were.
  absl::Status Replace(absl::string_view contents);

 private:
  explicit PublishedFile(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_PUBLISHED_FILE_H_
