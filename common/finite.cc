#include "common/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/kernel_clones.h"

namespace millrace {
namespace {

// All bits of the exponent: set in infinities and NaNs, and in nothing else.
constexpr uint32_t kExponent = 0x7f800000;

// A number of iterations that the compiler knows is what it needs to vectorise a loop here.
constexpr size_t kChunk = 1024;

uint32_t NotFinite(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & kExponent) == kExponent;
}

MILLRACE_KERNEL bool ChunkIsFinite(const float* values) {
  uint32_t found = 0;
  for (size_t i = 0; i < kChunk; ++i) found |= NotFinite(values[i]);
  return found == 0;
}

}  // namespace

size_t FirstNotFinite(absl::Span<const float> values) {
  size_t begin = 0;
  while (values.size() - begin >= kChunk && ChunkIsFinite(values.data() + begin)) begin += kChunk;
  return std::find_if(values.begin() + begin, values.end(), NotFinite) - values.begin();
}

}  // namespace millrace
