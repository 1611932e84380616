// Memory for the gradients of a step.
#ifndef MILLRACE_WORKER_MODEL_GRADIENT_SET_H_
#define MILLRACE_WORKER_MODEL_GRADIENT_SET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/model/host_memory.h"

namespace millrace::worker {

// What a step gives: uninitialised floats for each variable, one after the other, each aligned to
// HostMemory::kAlignment (as GradientSink::DeviceBuffer wants it).
class GradientSet {
 public:
  // Of a variable that has no gradient here, 0. `memory`: where from; ordinary memory where it is
  // null, or has too little. Throws std::bad_alloc.
  explicit GradientSet(const std::vector<uint64_t>& variable_sizes,
                       std::shared_ptr<HostMemory> memory = nullptr);
  ~GradientSet();
  GradientSet(const GradientSet&) = delete;
  GradientSet& operator=(const GradientSet&) = delete;

  absl::Span<float> variable(size_t index) {
    return absl::MakeSpan(floats_ + begins_[index], sizes_[index]);
  }

  // Whether a device may write there.
  bool is_host_memory() const { return memory_ != nullptr; }

 private:
  const std::vector<uint64_t> sizes_;
  std::shared_ptr<HostMemory> memory_;  // Null: ordinary memory.
  std::vector<size_t> begins_;          // Of each variable.
  float* floats_ = nullptr;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_GRADIENT_SET_H_
