#include "worker/input/csv/csv_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/input/line_reader.h"

namespace millrace::worker {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
constexpr char kQuote = '"';

}  // namespace

CsvReader::CsvReader(InputFile* file, CsvSyntax syntax)
    : file_(*file), syntax_(std::move(syntax)) {}

absl::StatusOr<bool> CsvReader::Next() {
  if (next_.line == 1 && next_.column == 1 && GoesOnWith(kByteOrderMark)) {
    begin_ += kByteOrderMark.size();
  }
  while (Peek() >= 0) {
    if (!syntax_.comment.empty() && GoesOnWith(syntax_.comment)) {
      SkipLine();
      continue;
    }
    const absl::Status row = ReadRow();
    MILLRACE_RETURN_IF_ERROR(status_);
    MILLRACE_RETURN_IF_ERROR(row);
    const bool blank = fields_.size() == 1 && text_.empty() && !quoted_;
    if (!blank) return true;
  }
  MILLRACE_RETURN_IF_ERROR(status_);
  return false;
}

absl::string_view CsvReader::text(size_t i) const {
  const size_t end = i + 1 < fields_.size() ? fields_[i + 1].begin : text_.size();
  return absl::string_view(text_).substr(fields_[i].begin, end - fields_[i].begin);
}

absl::Status CsvReader::ReadRow() {
  text_.clear();
  fields_.clear();
  quoted_ = false;
  while (true) {
    MILLRACE_RETURN_IF_ERROR(ReadField());
    if (Peek() != static_cast<unsigned char>(syntax_.delimiter)) break;
    Take();
  }
  TakeLineEnd();
  return absl::OkStatus();
}

absl::Status CsvReader::ReadField() {
  while (syntax_.skip_initial_space && Peek() == ' ') Take();
  if (fields_.size() >= kMaxFields) {
    return ErrorAt(next_, absl::StrCat("a row of more than ", kMaxFields, " fields"));
  }
  fields_.push_back({text_.size(), next_});
  if (syntax_.quotes && Peek() == kQuote) return ReadQuoted();
  while (!AtLineEnd() && Peek() != static_cast<unsigned char>(syntax_.delimiter)) {
    if (syntax_.quotes && Peek() == kQuote) {
      return ErrorAt(next_,
                     "a quote within a field that does not begin with one; put the field in quotes "
                     "and double this one, or set no_quotes");
    }
    MILLRACE_RETURN_IF_ERROR(Append(Take()));
  }
  return absl::OkStatus();
}

absl::Status CsvReader::ReadQuoted() {
  quoted_ = true;
  Take();
  while (true) {
    if (Peek() < 0) return ErrorAt(fields_.back().place, "a field in quotes that has no end");
    const char c = Take();
    if (c == kQuote) {
      if (Peek() != kQuote) break;
      Take();
    }
    MILLRACE_RETURN_IF_ERROR(Append(c));
  }
  if (AtLineEnd() || Peek() == static_cast<unsigned char>(syntax_.delimiter)) {
    return absl::OkStatus();
  }
  return ErrorAt(next_, "a field goes on after its last quote; quotes within it must be doubled");
}

absl::Status CsvReader::Append(char c) {
  if (text_.size() >= kMaxRowBytes) {
    return ErrorAt(fields_.front().place,
                   absl::StrCat("a row longer than ", kMaxRowBytes, " bytes"));
  }
  text_.push_back(c);
  return absl::OkStatus();
}

// REQUIRES: Has(1).
char CsvReader::Take() {
  const char c = buffer_[begin_++];
  if (c == '\n') {
    ++next_.line;
    next_.column = 1;
  } else {
    ++next_.column;
  }
  return c;
}

// Moves what was not taken to the front and reads more behind it.
bool CsvReader::Fill(size_t bytes) {
  if (at_end_) return false;
  std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  buffer_.resize(std::max(kBufferBytes, bytes));
  const absl::StatusOr<size_t> got = file_.Read(absl::MakeSpan(buffer_).subspan(end_));
  status_ = got.status();
  at_end_ = !got.ok() || *got < buffer_.size() - end_;
  end_ += got.value_or(0);
  return end_ >= bytes;
}

bool CsvReader::GoesOnWith(absl::string_view text) {
  return Has(text.size()) && absl::string_view(&buffer_[begin_], text.size()) == text;
}

// Also at the end of the file.
bool CsvReader::AtLineEnd() {
  const int next = Peek();
  if (next != '\r') return next < 0 || next == '\n';
  return !Has(2) || buffer_[begin_ + 1] == '\n';
}

// REQUIRES: AtLineEnd().
void CsvReader::TakeLineEnd() {
  if (Peek() == '\r') Take();
  if (Peek() == '\n') Take();
}

void CsvReader::SkipLine() {
  while (Peek() >= 0) {
    if (Take() == '\n') return;
  }
}

}  // namespace millrace::worker
