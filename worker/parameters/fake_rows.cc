#include "worker/parameters/fake_rows.h"

#include <algorithm>

namespace millrace::testing {

std::string WhyNoRows(const RowNumbers& rows, uint64_t width, uint64_t begin, uint64_t count) {
  if (width == 0) return "rows.width: 0";
  for (int i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i] <= rows[i - 1]) return "rows.rows: not ascending";
    if (count == 0 || rows[i] < begin / width || rows[i] > (begin + count - 1) / width) {
      return "rows.rows: a row without elements here";
    }
  }
  return "";
}

std::vector<uint64_t> ElementsInRows(const RowNumbers& rows, uint64_t width, uint64_t begin,
                                     uint64_t count) {
  std::vector<uint64_t> elements;
  for (uint64_t i = 0; i < count; ++i) {
    if (std::binary_search(rows.begin(), rows.end(), (begin + i) / width)) elements.push_back(i);
  }
  return elements;
}

}  // namespace millrace::testing
