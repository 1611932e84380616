#include "ps/dense/finite.h"

#include <algorithm>

#include "absl/types/span.h"
#include "common/finite.h"
#include "common/wire/encoding.h"
#include "ps/optimizer/kernel.h"

namespace millrace::ps {

namespace {

// Narrower numbers are widened so many at a time.
constexpr size_t kChunk = 1024;

// In a run of floats.
absl::optional<NotFinite> FindInFloats(const char* bytes, size_t count) {
  if (AllFinite(bytes, count)) return absl::nullopt;
  size_t i = 0;
  while (AllFinite(bytes + i * sizeof(float), 1)) ++i;
  return NotFinite{i, LoadFloat(bytes, i)};
}

// In a run of numbers of another encoding.
absl::optional<NotFinite> FindInNarrow(Encoding::Kind encoding, const char* bytes, size_t count) {
  float floats[kChunk];
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t size = std::min(kChunk, count - begin);
    Widen(encoding, bytes + begin * WidthOf(encoding), absl::MakeSpan(floats, size));
    absl::optional<NotFinite> found = FindInFloats(reinterpret_cast<const char*>(floats), size);
    if (!found.has_value()) continue;
    found->index += begin;
    return found;
  }
  return absl::nullopt;
}

}  // namespace

absl::optional<NotFinite> FindNotFinite(const FloatSlices& values) {
  absl::optional<NotFinite> found;
  const Encoding::Kind encoding = values.encoding();
  values.ForEachRun([&found, encoding](size_t offset, const char* bytes, size_t count) {
    if (found.has_value()) return;
    found = encoding == Encoding::FLOAT32 ? FindInFloats(bytes, count)
                                          : FindInNarrow(encoding, bytes, count);
    if (found.has_value()) found->index += offset;
  });
  return found;
}

}  // namespace millrace::ps
