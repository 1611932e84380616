#include "worker/input/libsvm_line.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace millrace::worker {
namespace {

constexpr size_t kMaxShownBytes = 20;

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

// A word of the line as it is shown in a message: whoever submits a job names its files, and shall
// not read in its messages what else is in the files of a worker's machine.
std::string Quoted(absl::string_view word) {
  constexpr absl::string_view kOfNumbers = "+-.:0123456789eE";
  if (word != "nan" && word.find_first_not_of(kOfNumbers) != absl::string_view::npos) {
    return absl::StrCat("a word of ", word.size(), word.size() == 1 ? " byte" : " bytes",
                        " that is no number");
  }
  if (word.size() <= kMaxShownBytes) return absl::StrCat("'", word, "'");
  return absl::StrCat("'", word.substr(0, kMaxShownBytes), "...'");
}

// All of `word` as a number; a plus sign is allowed. What is too small for a double is 0, what is
// too large is infinite.
absl::optional<double> ParseNumber(absl::string_view word) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-') word.remove_prefix(1);
  double number = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error == std::errc::invalid_argument || stop != end) return absl::nullopt;
  // from_chars does not say which of the two it is.
  if (error == std::errc::result_out_of_range && !absl::SimpleAtod(word, &number)) {
    return absl::nullopt;
  }
  return number;
}

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
      return Fail(word, "label ", Quoted(word), "; labels are whole numbers from 0, or -1 and +1");
    }
    parsed_.label = static_cast<int32_t>(*number);
    return true;
  }

  bool ParseFeature(absl::string_view word) {
    uint32_t index = 0;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, index);
    if (stop == end || *stop != ':' || stop == word.data()) {
      return Fail(word, Quoted(word), "; expected INDEX:VALUE");
    }
    if (error != std::errc() || index == 0 || index > features_) {
      return Fail(word, "index ", Quoted(word.substr(0, stop - word.data())), "; must be 1 to ",
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
      return Fail(word, "value ", Quoted(word), " of index ", index,
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
