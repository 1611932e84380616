#include "worker/input/libsvm_line.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/input/number_text.h"

namespace millrace::worker {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

class Parser {
 public:
  Parser(absl::string_view line, uint32_t features, LibsvmLine* parsed)
      : line_(line.substr(0, line.find('#'))), features_(features), parsed_(*parsed) {}

  absl::optional<LibsvmError> Parse() {
    parsed_.label.reset();
    parsed_.indices.clear();
    parsed_.values.clear();
    absl::string_view word = NextWord();
    if (word.empty()) return absl::nullopt;
    if (!ParseLabel(word)) return std::move(error_);
    while (!(word = NextWord()).empty()) {
      if (!ParseFeature(word)) return std::move(error_);
    }
    return absl::nullopt;
  }

 private:
  // Empty at the end of the line.
  absl::string_view NextWord() {
    while (position_ < line_.size() && IsSpace(line_[position_])) ++position_;
    const size_t start = position_;
    while (position_ < line_.size() && !IsSpace(line_[position_])) ++position_;
    return line_.substr(start, position_ - start);
  }

  bool ParseLabel(absl::string_view word) {
    const absl::optional<double> number = ParseNumber(word);
    if (!number.has_value() || std::floor(*number) != *number || *number < -1 ||
        *number > kMaxLibsvmLabel) {
      return Fail(word, "the label is ", ShowWord(word),
                  "; labels are whole numbers from 0, or -1 and +1");
    }
    parsed_.label = static_cast<int32_t>(*number);
    return true;
  }

  bool ParseFeature(absl::string_view word) {
    uint32_t index = 0;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, index);
    if (stop == end || *stop != ':' || stop == word.data()) {
      return Fail(word, ShowWord(word), "; expected INDEX:VALUE");
    }
    if (error != std::errc() || index == 0 || index > features_) {
      return Fail(word, "index ", ShowWord(word.substr(0, stop - word.data())), "; must be 1 to ",
                  features_, ", the number of features");
    }
    if (!parsed_.indices.empty() && index - 1 <= parsed_.indices.back()) {
      return Fail(word, "index ", index, " after index ", parsed_.indices.back() + 1,
                  "; indices must increase");
    }
    return ParseValue(index, word.substr(stop + 1 - word.data()));
  }

  bool ParseValue(uint32_t index, absl::string_view word) {
    const absl::optional<double> number = ParseNumber(word);
    const float value = static_cast<float>(number.value_or(NAN));
    if (!std::isfinite(value)) {
      return Fail(word, "the value of index ", index, " is ", ShowWord(word),
                  "; must be a finite number that fits float32");
    }
    parsed_.indices.push_back(index - 1);
    parsed_.values.push_back(value);
    return true;
  }

  // Notes what is wrong with `word`, a part of the line.
  template <typename... Parts>
  bool Fail(absl::string_view word, const Parts&... parts) {
    error_ =
        LibsvmError{static_cast<size_t>(word.data() - line_.data()) + 1, absl::StrCat(parts...)};
    return false;
  }

  const absl::string_view line_;
  const uint32_t features_;
  LibsvmLine& parsed_;
  size_t position_ = 0;
  absl::optional<LibsvmError> error_;
};

}  // namespace

absl::optional<LibsvmError> ParseLibsvmLine(absl::string_view line, uint32_t features,
                                            LibsvmLine* parsed) {
  return Parser(line, features, parsed).Parse();
}

}  // namespace millrace::worker
