#include "worker/model/placement.h"

#include <algorithm>
#include <numeric>

namespace millrace::worker {
namespace {

bool AtOneTime(const Placed& a, const Placed& b) { return a.begin <= b.end && b.begin <= a.end; }

// The lowest place for `one` among those in `placed`, which are in the order of their places.
size_t LowestPlace(const std::vector<Placed>& all, const std::vector<size_t>& placed,
                   const Placed& one) {
  size_t place = 0;
  for (const size_t index : placed) {
    const Placed& other = all[index];
    if (!AtOneTime(one, other)) continue;
    if (other.place >= place + one.size) break;
    place = std::max(place, other.place + other.size);
  }
  return place;
}

}  // namespace

size_t PlaceAll(std::vector<Placed>* all) {
  std::vector<size_t> largest_first(all->size());
  std::iota(largest_first.begin(), largest_first.end(), size_t{0});
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [all](size_t a, size_t b) { return (*all)[a].size > (*all)[b].size; });
  std::vector<size_t> placed;
  size_t size = 0;
  for (const size_t index : largest_first) {
    Placed& one = (*all)[index];
    one.place = LowestPlace(*all, placed, one);
    size = std::max(size, one.place + one.size);
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), one.place,
                         [all](size_t place, size_t other) { return place < (*all)[other].place; });
    placed.insert(after, index);
  }
  return size;
}

size_t MostAtOneTime(const std::vector<Placed>& all) {
  size_t most = 0;
  // It is reached when one of them begins.
  for (const Placed& one : all) {
    size_t sum = 0;
    for (const Placed& other : all) {
      if (other.begin <= one.begin && one.begin <= other.end) sum += other.size;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace millrace::worker
