#include "worker/device/cuda/gradient_buckets.h"

#include <utility>

namespace millrace::worker {

std::vector<GradientBucket> PlanBuckets(const Walk& walk, const VariablePlaces& places) {
  const size_t enough = places.gradients_bytes / kMostBuckets;
  std::vector<GradientBucket> buckets;
  GradientBucket bucket;
  size_t next = 0;
  for (size_t step = 0; step < walk.backward.size(); ++step) {
    while (next < places.order.size() && places.final_after[next] == step + 1) {
      bucket.variables.push_back(places.order[next++]);
    }
    bucket.end =
        next < places.order.size() ? places.gradients[places.order[next]] : places.gradients_bytes;
    bucket.steps = step + 1;
    const bool last = bucket.steps == walk.backward.size();
    if (!last && (next == places.order.size() || bucket.bytes() < enough)) continue;
    const size_t end = bucket.end;
    buckets.push_back(std::exchange(bucket, {}));
    bucket.begin = bucket.end = end;
  }
  return buckets;
}

}  // namespace millrace::worker
