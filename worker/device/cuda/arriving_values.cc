#include "worker/device/cuda/arriving_values.h"

#include <new>

namespace millrace::worker {

ArrivingValues::ArrivingValues(const VariablePlaces& places, Copy copy)
    : places_(places), copy_(std::move(copy)), told_(places.values.size()) {}

void ArrivingValues::Forget(size_t variable) {
  MutexLock lock(&mutex_);
  told_[variable] = false;
}

absl::optional<cuda::Error> ArrivingValues::Arrived(size_t variable, size_t first, size_t count) {
  MutexLock lock(&mutex_);
  if (error_.has_value()) return absl::nullopt;
  told_[variable] = true;
  try {
    copy_(places_.values[variable] + first * sizeof(float), count * sizeof(float));
  } catch (const cuda::Error& error) {
    error_ = error;
  } catch (const std::bad_alloc&) {
    error_.emplace(cuda::Error::kMemory, "no memory is left for what arrives");
  }
  return error_;
}

// Neighbours at once: where nothing was told of, that is one copy.
void ArrivingValues::CopyRest() {
  MutexLock lock(&mutex_);
  if (error_.has_value()) {
    told_.assign(told_.size(), false);
    throw *std::exchange(error_, absl::nullopt);
  }
  for (size_t i = 0; i < told_.size(); ++i) {
    if (told_[i]) continue;
    const size_t begin = places_.values[i];
    while (i + 1 < told_.size() && !told_[i + 1]) ++i;
    copy_(begin, places_.values[i] + places_.elements[i] * sizeof(float) - begin);
  }
}

}  // namespace millrace::worker
