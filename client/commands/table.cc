#include "client/commands/table.h"

#include <algorithm>

namespace millrace::client {

std::string Table::ToString() const {
  // 0: nothing but a head.
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (size_t column = 0; column < widths.size(); ++column) {
    for (size_t row = 1; row < rows_.size(); ++row) {
      widths[column] = std::max(widths[column], rows_[row][column].size());
    }
    if (widths[column] == 0 && rows_.size() > 1) continue;
    widths[column] = std::max(widths[column], rows_.front()[column].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] == 0) continue;
      line += row[column];
      line.append(widths[column] + 2 - row[column].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace millrace::client
