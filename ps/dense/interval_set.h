// Which elements have arrived, each exactly once.
#ifndef MILLRACE_PS_DENSE_INTERVAL_SET_H_
#define MILLRACE_PS_DENSE_INTERVAL_SET_H_

#include <cstdint>

#include "absl/container/btree_map.h"

namespace millrace::ps {

// A set of whole numbers, kept as its maximal intervals. Not thread-safe.
class IntervalSet {
 public:
  // Adds [begin, end). Returns false, and adds nothing, when a part of it is there already.
  // REQUIRES: begin <= end. An empty interval adds nothing.
  bool Insert(uint64_t begin, uint64_t end);

  // Whether all of [begin, end) is in the set. REQUIRES: begin < end.
  bool Contains(uint64_t begin, uint64_t end) const;

  // How many numbers are in the set.
  uint64_t size() const { return size_; }

  // How many intervals they form: what the set costs.
  size_t intervals() const { return ends_.size(); }

 private:
  absl::btree_map<uint64_t, uint64_t> ends_;  // By begin. No two touch.
  uint64_t size_ = 0;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_INTERVAL_SET_H_
