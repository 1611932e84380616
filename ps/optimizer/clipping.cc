#include "ps/optimizer/clipping.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

// Elements that are clipped at a time: few enough to stay in the processor's first cache.
constexpr size_t kClippedAtATime = 4096;
// More than any optimizer has, with the values.
constexpr int kMaxClippedArrays = 8;

MILLRACE_KERNEL void Clip(float clip_value, const char* gradient, size_t count, float* clipped) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float at_least = g < -clip_value ? -clip_value : g;
    clipped[i] = at_least > clip_value ? clip_value : at_least;
  }
}

class ClippingOptimizer final : public Optimizer {
 public:
  ClippingOptimizer(std::unique_ptr<Optimizer> optimizer, float clip_value)
      : optimizer_(std::move(optimizer)), clip_value_(clip_value) {}

  int slots() const override { return optimizer_->slots(); }
  float initial_slot(int slot) const override { return optimizer_->initial_slot(slot); }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    alignas(64) std::array<float, kClippedAtATime> clipped;
    std::array<const float*, kMaxClippedArrays> in_here;
    std::array<float*, kMaxClippedArrays> out_here;
    for (size_t begin = 0; begin < count; begin += kClippedAtATime) {
      const size_t here = std::min(kClippedAtATime, count - begin);
      Clip(clip_value_, gradient + begin * sizeof(float), here, clipped.data());
      for (int i = 0; i <= slots(); ++i) {
        in_here[i] = in[i] + begin;
        out_here[i] = out[i] + begin;
      }
      optimizer_->Apply(version, reinterpret_cast<const char*>(clipped.data()), here,
                        in_here.data(), out_here.data());
    }
  }

 private:
  const std::unique_ptr<Optimizer> optimizer_;
  const float clip_value_;
};

}  // namespace

std::unique_ptr<Optimizer> ClipGradients(std::unique_ptr<Optimizer> optimizer, float clip_value) {
  return std::make_unique<ClippingOptimizer>(std::move(optimizer), clip_value);
}

}  // namespace millrace::ps
