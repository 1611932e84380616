#include "ps/dense/interval_set.h"

#include <iterator>

namespace millrace::ps {

bool IntervalSet::Insert(uint64_t begin, uint64_t end) {
  if (begin == end) return true;
  const uint64_t added = end - begin;
  auto next = ends_.lower_bound(begin);
  if (next != ends_.end() && next->first < end) return false;
  if (next != ends_.begin()) {
    auto previous = std::prev(next);
    if (previous->second > begin) return false;
    if (previous->second == begin) {
      begin = previous->first;
      next = ends_.erase(previous);
    }
  }
  if (next != ends_.end() && next->first == end) {
    end = next->second;
    ends_.erase(next);
  }
  ends_[begin] = end;
  size_ += added;
  return true;
}

bool IntervalSet::Contains(uint64_t begin, uint64_t end) const {
  auto next = ends_.upper_bound(begin);
  return next != ends_.begin() && std::prev(next)->second >= end;
}

}  // namespace millrace::ps
