#include "worker/device/cpu/layers/dropout.h"

#include <algorithm>

#include "worker/device/dropout_mask.h"
#include "worker/split_mix.h"

// Several compilations of a function, of which the processor's best is taken at run time. All of
// them give the same bits: integers, and one rounding for each product. (A sanitizer's runtime is
// not ready yet when the choice is made.)
#if defined(__x86_64__) && !defined(MILLRACE_SANITIZER)
#define MILLRACE_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MILLRACE_FOR_EACH_PROCESSOR
#endif

namespace millrace::worker {
namespace {

// What Mix64 is for 64 bits (the constants of C. Wellons' "lowbias32").
inline uint32_t Mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352d;
  x = (x ^ (x >> 15)) * 0x846ca68b;
  return x ^ (x >> 16);
}

// A plain loop over 32-bit numbers, which the compiler vectorises. Two rounds with a key each: one
// round would give keys that differ by d masks that are shifted by d.
MILLRACE_FOR_EACH_PROCESSOR
void MaskRow(uint64_t key, uint32_t threshold, float scale, uint32_t count, const float* from,
             float* to) {
  const uint32_t first = static_cast<uint32_t>(key);
  const uint32_t second = static_cast<uint32_t>(key >> 32);
#pragma GCC ivdep  // They may be one place.
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t hash = Mix32(Mix32(i + first) ^ second);
    to[i] = hash < threshold ? 0.0f : from[i] * scale;
  }
}

}  // namespace

DropoutLayer::DropoutLayer(const LayerPlan& plan, size_t layer_index)
    : layer_index_(layer_index),
      elements_(ElementCount(plan.input())),
      threshold_(DropoutThreshold(plan.spec.dropout().rate())),
      scale_(DropoutScale(plan.spec.dropout().rate())) {}

void DropoutLayer::Mask(const CpuPass& pass, const float* from, float* to) const {
  const uint64_t layer_key = SplitMix64(SplitMix64(pass.seed) + layer_index_);
  for (size_t row = 0; row < pass.batch; ++row) {
    MaskRow(SplitMix64(layer_key + row), threshold_, scale_, static_cast<uint32_t>(elements_),
            from + row * elements_, to + row * elements_);
  }
}

void DropoutLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  if (pass.training) {
    Mask(pass, x, y);
  } else if (y != x) {
    std::copy(x, x + pass.batch * elements_, y);
  }
}

void DropoutLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/, float* dy,
                            float* dx) {
  if (dx != nullptr) Mask(pass, dy, dx);
}

}  // namespace millrace::worker
