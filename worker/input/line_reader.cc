#include "worker/input/line_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

constexpr size_t kFirstBufferBytes = size_t{16} << 10;

}  // namespace

absl::StatusOr<bool> LineReader::Next() {
  size_t searched = 0;
  const char* newline = nullptr;
  while (true) {
    const size_t rest = end_ - begin_ - searched;
    if (rest > 0) {
      newline = static_cast<const char*>(std::memchr(&buffer_[begin_ + searched], '\n', rest));
    }
    if (newline != nullptr || at_end_) break;
    searched += rest;
    MILLRACE_RETURN_IF_ERROR(Refill());
  }
  if (newline == nullptr && begin_ == end_) return false;
  const char* start = &buffer_[begin_];
  const size_t length = newline != nullptr ? newline - start : end_ - begin_;
  begin_ += length + (newline != nullptr ? 1 : 0);
  line_ = absl::string_view(start, length);
  if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
  if (number_ == 0) absl::ConsumePrefix(&line_, kByteOrderMark);
  ++number_;
  return true;
}

// Moves the unfinished line to the front and reads more behind it.
absl::Status LineReader::Refill() {
  std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ >= kMaxLineBytes) {
    return file_.ErrorAt(number_ + 1, 1,
                         absl::StrCat("a line longer than ", kMaxLineBytes, " bytes"));
  }
  if (end_ == buffer_.size()) buffer_.resize(std::max(kFirstBufferBytes, 2 * buffer_.size()));
  MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.Read(absl::MakeSpan(buffer_).subspan(end_)));
  at_end_ = got < buffer_.size() - end_;
  end_ += got;
  return absl::OkStatus();
}

}  // namespace millrace::worker
