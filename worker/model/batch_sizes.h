#ifndef MILLRACE_WORKER_MODEL_BATCH_SIZES_H_
#define MILLRACE_WORKER_MODEL_BATCH_SIZES_H_

#include <algorithm>
#include <cstddef>

namespace millrace::worker {

// The most examples of a batch.
struct BatchSizes {
  size_t train = 0;
  size_t evaluation = 0;  // 0: the model is not evaluated.

  size_t largest() const { return std::max(train, evaluation); }
};

// How many ids an example of a ragged feature is taken to have, until batches have more.
inline constexpr size_t kLikelyRaggedIds = 16;

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_BATCH_SIZES_H_
