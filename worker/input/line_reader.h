// The lines of a file.
#ifndef MILLRACE_WORKER_INPUT_LINE_READER_H_
#define MILLRACE_WORKER_INPUT_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/input/input_file.h"

namespace millrace::worker {

// What some programs write before a text in UTF-8. It is no part of the text.
inline constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// Holds a window of the file that is as large as its longest line. Not thread-safe.
class LineReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{1} << 28;

  // `file` is not owned and must outlive this object.
  explicit LineReader(InputFile* file) : file_(*file) {}

  // Moves on; false at the end. A last line need not end in '\n', and a byte order mark before the
  // first one is skipped. Blocks while it reads.
  // INVALID_ARGUMENT: a line longer than kMaxLineBytes; others as InputFile::Read.
  absl::StatusOr<bool> Next();

  // The current line without its end ("\n" or "\r\n"). Valid until Next is called.
  absl::string_view line() const { return line_; }

  // Counted from 1.
  uint64_t number() const { return number_; }

 private:
  absl::Status Refill();

  InputFile& file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // buffer_[begin_, end_) is read from the file and not yet given out.
  size_t end_ = 0;
  bool at_end_ = false;  // The file has no more than that.
  absl::string_view line_;
  uint64_t number_ = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_LINE_READER_H_
