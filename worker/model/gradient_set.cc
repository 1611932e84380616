#include "worker/model/gradient_set.h"

#include <new>
#include <utility>

namespace millrace::worker {
namespace {

constexpr std::align_val_t kAlignment{HostMemory::kAlignment};
constexpr size_t kAlignmentFloats = HostMemory::kAlignment / sizeof(float);

}  // namespace

// One piece of memory: that of a device takes long to be made, whatever its size.
GradientSet::GradientSet(const std::vector<uint64_t>& variable_sizes,
                         std::shared_ptr<HostMemory> memory)
    : sizes_(variable_sizes), memory_(std::move(memory)) {
  size_t end = 0;
  for (const uint64_t size : sizes_) {
    begins_.push_back(end);
    end += (size + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
  }
  if (end == 0) return;
  end += kAlignmentFloats;  // So that no other memory seems to be a variable's continuation.
  const size_t bytes = end * sizeof(float);
  void* floats = memory_ == nullptr ? nullptr : memory_->Allocate(bytes);
  if (floats == nullptr) {
    memory_ = nullptr;
    floats = ::operator new(bytes, kAlignment);
  }
  floats_ = static_cast<float*>(floats);
}

GradientSet::~GradientSet() {
  if (floats_ == nullptr) return;
  if (memory_ == nullptr) {
    ::operator delete(floats_, kAlignment);
  } else {
    memory_->Free(floats_);
  }
}

}  // namespace millrace::worker
