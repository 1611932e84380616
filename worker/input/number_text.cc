#include "worker/input/number_text.h"

#include <charconv>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace millrace::worker {
namespace {

constexpr size_t kMaxShownBytes = 20;

}  // namespace

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

std::string ShowWord(absl::string_view word) {
  constexpr absl::string_view kOfNumbers = "+-.:0123456789eE";
  if (word != "nan" && word.find_first_not_of(kOfNumbers) != absl::string_view::npos) {
    return absl::StrCat("a word of ", word.size(), word.size() == 1 ? " byte" : " bytes",
                        " that is no number");
  }
  if (word.size() <= kMaxShownBytes) return absl::StrCat("'", word, "'");
  return absl::StrCat("'", word.substr(0, kMaxShownBytes), "...'");
}

}  // namespace millrace::worker
