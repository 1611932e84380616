#include "client/progress/confusion_table.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/progress/format.h"
#include "common/printable.h"

namespace millrace::client {
namespace {

constexpr uint64_t kMostClasses = 30;  // Of a table that fits a screen.

bool IsWhole(const ConfusionMatrix& matrix) {
  const uint64_t classes = matrix.classes();
  return static_cast<uint64_t>(matrix.counts_size()) == classes * classes;
}

// "    3  4,971     29": a row's name and its numbers, right-aligned.
std::string TableRow(const std::string& name, const std::vector<std::string>& numbers,
                     size_t width) {
  std::string row = absl::StrFormat("%5s", name);
  for (const std::string& number : numbers) {
    absl::StrAppendFormat(&row, "  %*s", static_cast<int>(width), number);
  }
  return row;
}

}  // namespace

std::vector<std::string> ConfusionTable(const ConfusionMatrix& matrix) {
  const std::string of =
      matrix.output().empty() ? "" : absl::StrCat(" of ", PrintableName(matrix.output()));
  const uint64_t classes = matrix.classes();
  if (!IsWhole(matrix) || classes > kMostClasses) {
    return {absl::StrCat("confusion matrix", of, ": ", FormatCount(classes),
                         " classes; --json has the numbers")};
  }
  std::vector<std::string> numbers;
  size_t width = 5;
  for (const uint64_t count : matrix.counts()) {
    numbers.push_back(FormatCount(count));
    width = std::max(width, numbers.back().size());
  }
  std::vector<std::string> names;
  for (uint64_t i = 0; i < classes; ++i) names.push_back(absl::StrCat(i));
  std::vector<std::string> lines = {
      absl::StrCat("confusion matrix", of, " (rows: labels, columns: what the model says):"),
      TableRow("", names, width)};
  for (uint64_t i = 0; i < classes; ++i) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i * classes);
    lines.push_back(
        TableRow(names[i], {begin, begin + static_cast<std::ptrdiff_t>(classes)}, width));
  }
  return lines;
}

nlohmann::ordered_json ConfusionJson(const ConfusionMatrix& matrix) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const int classes = IsWhole(matrix) ? static_cast<int>(matrix.classes()) : 0;
  for (int row = 0; row < classes; ++row) {
    nlohmann::ordered_json counts = nlohmann::ordered_json::array();
    for (int i = 0; i < classes; ++i) counts.push_back(matrix.counts(row * classes + i));
    rows.push_back(std::move(counts));
  }
  return {{"output", matrix.output()}, {"counts", std::move(rows)}};
}

}  // namespace millrace::client
