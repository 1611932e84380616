// Places in one piece of memory for things that are needed at different times.
#ifndef MILLRACE_WORKER_MODEL_PLACEMENT_H_
#define MILLRACE_WORKER_MODEL_PLACEMENT_H_

#include <cstddef>
#include <vector>

namespace millrace::worker {

struct Placed {
  size_t size = 0;
  // The first and the last time at which it is needed.
  size_t begin = 0;
  size_t end = 0;
  size_t place = 0;  // Filled in.
};

// Gives each its place, so that no two that are needed at one time overlap: the largest first, each
// as low as it fits. Returns how much memory that takes. REQUIRES: the sum of the sizes fits.
size_t PlaceAll(std::vector<Placed>* all);

// The largest sum of the sizes that are needed at one time: no placement takes less.
size_t MostAtOneTime(const std::vector<Placed>& all);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_PLACEMENT_H_
