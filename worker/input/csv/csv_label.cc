#include "worker/input/csv/csv_label.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/input/number_text.h"

namespace millrace::worker {
namespace {

constexpr int32_t kMaxClass = 0x7ffffffe;

}  // namespace

CsvLabelEncoder::CsvLabelEncoder(const CsvLabel& spec)
    : number_(spec.number()), classes_(spec.classes_size()) {
  for (int i = 0; i < spec.classes_size(); ++i) {
    for (const std::string& value : spec.classes(i).values()) values_[value] = i;
  }
}

absl::optional<std::string> CsvLabelEncoder::Encode(const CsvValue& value, CsvCell* cell) const {
  if (value.missing) return "is missing; each example needs a label";
  if (!number_) return EncodeClass(value.text, cell);
  const absl::optional<double> number = ParseFinite(value.text);
  if (!number.has_value()) return NoFiniteNumber(value.text);
  cell->number = static_cast<float>(*number);
  if (std::isfinite(cell->number)) return absl::nullopt;
  return absl::StrCat(ShowWord(value.text), "; must fit float32");
}

absl::optional<std::string> CsvLabelEncoder::EncodeClass(absl::string_view text,
                                                         CsvCell* cell) const {
  if (classes_ > 0) {
    const auto found = values_.find(text);
    if (found == values_.end()) {
      return absl::StrCat("a word of ", text.size(), " bytes that is none of the values of the ",
                          classes_, " classes");
    }
    cell->id = found->second;
    return absl::nullopt;
  }
  const absl::optional<double> number = ParseFinite(text);
  if (!number.has_value() || std::floor(*number) != *number || *number < 0 || *number > kMaxClass) {
    return absl::StrCat(ShowWord(text), "; must be a whole number from 0 to ", kMaxClass,
                        ", or label.classes must list the values, or label.number be set");
  }
  cell->id = static_cast<int32_t>(*number);
  return absl::nullopt;
}

}  // namespace millrace::worker
