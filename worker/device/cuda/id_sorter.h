// The ids of a batch in order, for sums that have one.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_ID_SORTER_H_
#define MILLRACE_WORKER_DEVICE_CUDA_ID_SORTER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace millrace::worker {

// An id, and the row of the output for which it counts.
struct IdOfRow {
  int64_t id = 0;
  int64_t row = 0;
  bool operator==(const IdOfRow& other) const = default;
};

// Used by one thread at a time. Keeps the memory that it takes.
class IdSorter {
 public:
  // By id; those of one id as they came. What is returned is there until the next call, which may
  // change `ids` as well.
  absl::Span<const IdOfRow> Sort(absl::Span<IdOfRow> ids);

 private:
  std::vector<IdOfRow> other_;
  std::vector<uint32_t> begins_;  // Where the ids of each digit go.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_ID_SORTER_H_
