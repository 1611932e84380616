// Which examples of a file belong to a set.
#ifndef MILLRACE_WORKER_INPUT_EXAMPLE_RANGE_H_
#define MILLRACE_WORKER_INPUT_EXAMPLE_RANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"

namespace millrace::worker {

// Examples [begin, end), at least one.
struct ResolvedRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
};

// Fits `range` to the `examples` that are in `file` (its name, for messages). `field` is the path
// of the set in the job ("data.train"). INVALID_ARGUMENT: there are no examples, or it goes beyond
// them or is empty.
absl::StatusOr<ResolvedRange> ResolveRange(const ExampleRange& range, uint64_t examples,
                                           const std::string& file, const std::string& field);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_EXAMPLE_RANGE_H_
