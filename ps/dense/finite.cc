#include "ps/dense/finite.h"

#include <cstdint>
#include <cstring>

#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

// All bits of the exponent: set in infinities and NaNs, and in nothing else.
constexpr uint32_t kExponent = 0x7f800000;

// Without a branch, so that it is vectorised.
MILLRACE_KERNEL bool AllFinite(const char* bytes, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, bytes + i * sizeof(float), sizeof(bits));
    found |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return found == 0;
}

}  // namespace

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
