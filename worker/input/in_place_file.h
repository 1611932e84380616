// A file whose bytes are read again and again, wherever they are needed.
#ifndef MILLRACE_WORKER_INPUT_IN_PLACE_FILE_H_
#define MILLRACE_WORKER_INPUT_IN_PLACE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::worker {

// Stays open. That nobody changes the file meanwhile is seen from its size and its times: one that
// is replaced by another of the same name stays readable here as it was. Thread-safe but for moves.
class InPlaceFile {
 public:
  // `field` names the field of the job, for messages. UNAVAILABLE: it cannot be opened.
  static absl::StatusOr<InPlaceFile> Open(const std::string& path, const std::string& field);

  InPlaceFile(InPlaceFile&& other) noexcept;
  InPlaceFile& operator=(InPlaceFile&&) = delete;
  ~InPlaceFile();

  uint64_t size() const { return state_.size; }

  // Fills `bytes` with those at `offset`. Blocks. INVALID_ARGUMENT: the file has changed since it
  // was opened. UNAVAILABLE: the system cannot read.
  absl::Status ReadAt(uint64_t offset, absl::Span<char> bytes) const;

  // INVALID_ARGUMENT: the file has changed since it was opened. UNAVAILABLE: nobody knows.
  absl::Status CheckUnchanged() const;

  // INVALID_ARGUMENT: "FIELD: PATH: MESSAGE".
  absl::Status Error(const std::string& message) const;

 private:
  struct State {
    uint64_t size = 0;
    int64_t modified_seconds = 0;
    int64_t modified_nanoseconds = 0;

    bool operator==(const State&) const = default;
  };

  InPlaceFile(int descriptor, std::string path, std::string field);

  absl::StatusOr<State> Look() const;
  absl::Status SystemError(const std::string& operation) const;

  int descriptor_;  // Owned; -1 when moved from.
  std::string path_;
  std::string field_;
  State state_;  // When it was opened.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IN_PLACE_FILE_H_
