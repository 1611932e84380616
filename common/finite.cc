#include "common/finite.h"

#include <cstdint>
#include <cstring>

#include "common/kernel_clones.h"

namespace millrace {
namespace {

// All bits of the exponent: set in infinities and NaNs, and in nothing else.
constexpr uint32_t kExponent = 0x7f800000;

// So many values are looked at before it is asked whether one was found.
constexpr size_t kChunk = 1024;

uint32_t NotFinite(const void* value) {
  uint32_t bits;
  std::memcpy(&bits, value, sizeof(bits));
  return (bits & kExponent) == kExponent;
}

}  // namespace

// Without a branch, so that it is vectorised.
MILLRACE_KERNEL bool AllFinite(const char* bytes, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) found |= NotFinite(bytes + i * sizeof(float));
  return found == 0;
}

size_t FirstNotFinite(absl::Span<const float> values) {
  const char* const bytes = reinterpret_cast<const char*>(values.data());
  size_t i = 0;
  while (values.size() - i >= kChunk && AllFinite(bytes + i * sizeof(float), kChunk)) i += kChunk;
  while (i < values.size() && NotFinite(bytes + i * sizeof(float)) == 0) ++i;
  return i;
}

}  // namespace millrace
