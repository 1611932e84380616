#include "ps/dense/finite.h"

#include "common/finite.h"
#include "ps/optimizer/kernel.h"

namespace millrace::ps {

absl::optional<NotFinite> FindNotFinite(const FloatSlices& values) {
  absl::optional<NotFinite> found;
  values.ForEachRun([&found](size_t offset, const char* bytes, size_t count) {
    if (found.has_value() || AllFinite(bytes, count)) return;
    size_t i = 0;
    while (AllFinite(bytes + i * sizeof(float), 1)) ++i;
    found = NotFinite{offset + i, LoadFloat(bytes, i)};
  });
  return found;
}

}  // namespace millrace::ps
