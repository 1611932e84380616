// Radix sort from the lowest digit on: each digit is a pass over all ids, stable, and a table of
// some 10,000 rows has one or two. It is several times as fast as a sort that compares
// (docs/performance.md).
#include "worker/device/cuda/id_sorter.h"

#include <algorithm>
#include <utility>

namespace millrace::worker {
namespace {

constexpr int kDigitBits = 11;  // The counts of a digit fit into the fastest cache.
constexpr uint64_t kDigits = uint64_t{1} << kDigitBits;

}  // namespace

absl::Span<const IdOfRow> IdSorter::Sort(absl::Span<IdOfRow> ids) {
  if (ids.empty()) return ids;
  int64_t least = ids.front().id;
  int64_t most = least;
  for (const IdOfRow& id : ids) {
    least = std::min(least, id.id);
    most = std::max(most, id.id);
  }
  const auto first = static_cast<uint64_t>(least);
  const uint64_t range = static_cast<uint64_t>(most) - first;
  other_.resize(std::max(other_.size(), ids.size()));
  absl::Span<IdOfRow> from = ids;
  absl::Span<IdOfRow> to = absl::MakeSpan(other_).first(ids.size());
  for (int shift = 0; shift < 64 && range >> shift != 0; shift += kDigitBits) {
    const auto digit = [&](const IdOfRow& id) {
      return ((static_cast<uint64_t>(id.id) - first) >> shift) % kDigits;
    };
    begins_.assign(kDigits + 1, 0);
    for (const IdOfRow& id : from) ++begins_[digit(id) + 1];
    for (uint64_t i = 1; i < kDigits; ++i) begins_[i] += begins_[i - 1];
    for (const IdOfRow& id : from) to[begins_[digit(id)]++] = id;
    std::swap(from, to);
  }
  return from;
}

}  // namespace millrace::worker
