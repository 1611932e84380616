// The rows of a CSV file.
#ifndef MILLRACE_WORKER_INPUT_CSV_CSV_READER_H_
#define MILLRACE_WORKER_INPUT_CSV_CSV_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/input/input_file.h"

namespace millrace::worker {

// How a file is written; see CsvFiles in protos/csv.proto.
struct CsvSyntax {
  char delimiter = ',';
  std::string comment;  // Empty: there are none.
  bool skip_initial_space = false;
  bool quotes = true;
};

// Where a field begins; both are counted from 1, the column in bytes.
struct CsvPlace {
  uint64_t line = 0;
  uint64_t column = 0;
};

// Holds one row and a buffer of the file. Not thread-safe.
class CsvReader {
 public:
  static constexpr size_t kMaxRowBytes = size_t{1} << 24;
  static constexpr size_t kMaxFields = size_t{1} << 20;

  // `file` is not owned and must outlive this object.
  CsvReader(InputFile* file, CsvSyntax syntax);

  // Moves on, past blank lines and comments; false at the end. Blocks while it reads.
  // INVALID_ARGUMENT: quotes that do not match, a row beyond the limits above; others as
  // InputFile::Read.
  absl::StatusOr<bool> Next();

  // Of the current row, which has one field at least.
  size_t size() const { return fields_.size(); }

  // Valid until Next is called. REQUIRES: i < size().
  absl::string_view text(size_t i) const;
  CsvPlace place(size_t i) const { return fields_[i].place; }

  // INVALID_ARGUMENT, with the file and the place.
  absl::Status ErrorAt(const CsvPlace& place, const std::string& message) const {
    return file_.ErrorAt(place.line, place.column, message);
  }

 private:
  struct Field {
    size_t begin = 0;  // In text_; it ends where the next one begins.
    CsvPlace place;
  };

  absl::Status ReadRow();
  absl::Status ReadField();
  absl::Status ReadQuoted();
  absl::Status Append(char c);

  // The next byte, or -1 at the end of the file, as which a failure to read counts: see status_.
  int Peek() { return Has(1) ? static_cast<unsigned char>(buffer_[begin_]) : -1; }
  char Take();
  // Whether the file goes on with so many bytes; they are in the buffer then.
  bool Has(size_t bytes) { return end_ - begin_ >= bytes || Fill(bytes); }
  bool Fill(size_t bytes);
  bool GoesOnWith(absl::string_view text);
  bool AtLineEnd();
  void TakeLineEnd();
  void SkipLine();

  InputFile& file_;
  const CsvSyntax syntax_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // buffer_[begin_, end_) is read from the file and not yet taken.
  size_t end_ = 0;
  bool at_end_ = false;  // The file has no more than that.
  absl::Status status_;  // Of reading the file.
  CsvPlace next_ = {1, 1};
  std::string text_;  // Of the row's fields.
  std::vector<Field> fields_;
  bool quoted_ = false;  // A field of the row was in quotes.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_CSV_CSV_READER_H_
