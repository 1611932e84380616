// A file whose bytes are read again and again, wherever they are needed.
#ifndef MILLRACE_WORKER_INPUT_IN_PLACE_FILE_H_
#define MILLRACE_WORKER_INPUT_IN_PLACE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/input/file_state.h"
#include "worker/input/input_file.h"

namespace millrace::worker {

// Stays open. That nobody changes the file meanwhile is seen from its size and its time of the last
// change, whenever it is read: one that is replaced by another of the same name stays readable here
// as it was. Nothing is mapped into memory, so a file that is cut short is an error and no signal.
// Not seen: changes by somebody who sets the time back, or within the tick of the file system's
// clock (milliseconds) in which the file was opened. Thread-safe but for moves.
class InPlaceFile {
 public:
  // `field` names the field of the job, for messages. UNAVAILABLE: it cannot be opened.
  static absl::StatusOr<InPlaceFile> Open(const std::string& path, const std::string& field);

  // The file that `file` reads, whichever has its name by now; as it was when that was opened.
  static absl::StatusOr<InPlaceFile> Open(const InputFile& file);

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
  InPlaceFile(int descriptor, std::string path, std::string field);

  absl::Status CheckOpen() const;
  absl::StatusOr<FileState> Look() const;
  absl::Status SystemError(const std::string& operation) const;

  int descriptor_;  // Owned; -1 when moved from.
  std::string path_;
  std::string field_;
  FileState state_;  // When it was opened.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_IN_PLACE_FILE_H_
