#include "worker/model/shape.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::worker {

uint64_t ElementCount(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<uint64_t>());
}

bool HasAtMost(const Shape& shape, uint64_t limit) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  uint64_t count = 1;
  for (const uint64_t size : shape) {
    if (count > limit / size) return false;
    count *= size;
  }
  return count <= limit;
}

std::string ShapeString(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace millrace::worker
