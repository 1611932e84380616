// The examples of one step, as a model takes them.
#ifndef MILLRACE_WORKER_INPUT_BATCH_H_
#define MILLRACE_WORKER_INPUT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::worker {

// Features are [size, example shape...], row-major. A value type.
struct Batch {
  size_t size = 0;              // Examples.
  std::vector<float> features;  // size * elements of an example.
  std::vector<int32_t> labels;  // size.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_BATCH_H_
