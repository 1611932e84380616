#include "ps/optimizer/clipping.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

// Elements that are clipped at a time: few enough to stay in the processor's first cache.
constexpr size_t kClippedAtATime = 4096;
static_assert(kClippedAtATime % SquareSum::kLanes == 0);
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

// In float64, where the factor may be smaller than any float32.
MILLRACE_KERNEL void Shrink(double factor, const char* gradient, size_t count, float* shrunk) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    shrunk[i] = static_cast<float>(static_cast<double>(LoadFloat(gradient, i)) * factor);
  }
}

// Calls `visit` with the run's parts, one after the other, whose gradients `change(from, count,
// to)` has written anew.
template <typename Change, typename Visit>
void ForEachChanged(const ElementRun& run, int slots, const Change& change, const Visit& visit) {
  alignas(64) std::array<float, kClippedAtATime> changed;
  std::array<const float*, kMaxClippedArrays> in_here;
  std::array<float*, kMaxClippedArrays> out_here;
  for (size_t begin = 0; begin < run.count; begin += kClippedAtATime) {
    const size_t here = std::min(kClippedAtATime, run.count - begin);
    change(run.gradient + begin * sizeof(float), here, changed.data());
    for (int i = 0; i <= slots; ++i) {
      in_here[i] = run.in[i] + begin;
      out_here[i] = run.out[i] + begin;
    }
    visit(ElementRun{reinterpret_cast<const char*>(changed.data()), here, in_here.data(),
                     out_here.data()});
  }
}

class ClippingOptimizer final : public Optimizer {
 public:
  ClippingOptimizer(std::unique_ptr<Optimizer> optimizer, float clip_value)
      : optimizer_(std::move(optimizer)), clip_value_(clip_value) {}

  int slots() const override { return optimizer_->slots(); }
  float initial_slot(int slot) const override { return optimizer_->initial_slot(slot); }
  int passes() const override { return optimizer_->passes(); }
  bool keeps_without_gradient() const override { return optimizer_->keeps_without_gradient(); }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    ApplyToVariable(*this, version, {gradient, count, in, out});
  }

  void Measure(int pass, const VariableFacts& variable, const ElementRun& run,
               NormSums* sums) const override {
    ForEachClipped(run, [&](const ElementRun& clipped) {
      optimizer_->Measure(pass, variable, clipped, sums);
    });
  }

  void ApplyMeasured(const VariableFacts& variable, const ElementRun& run) const override {
    ForEachClipped(
        run, [&](const ElementRun& clipped) { optimizer_->ApplyMeasured(variable, clipped); });
  }

 private:
  template <typename Visit>
  void ForEachClipped(const ElementRun& run, const Visit& visit) const {
    const auto clip = [this](const char* from, size_t count, float* to) {
      Clip(clip_value_, from, count, to);
    };
    ForEachChanged(run, slots(), clip, visit);
  }

  const std::unique_ptr<Optimizer> optimizer_;
  const float clip_value_;
};

// The first pass measures the gradient; those of the optimizer itself follow.
class NormClippingOptimizer final : public Optimizer {
 public:
  NormClippingOptimizer(std::unique_ptr<Optimizer> optimizer, double clip_norm)
      : optimizer_(std::move(optimizer)), clip_norm_(clip_norm) {}

  int slots() const override { return optimizer_->slots(); }
  float initial_slot(int slot) const override { return optimizer_->initial_slot(slot); }
  int passes() const override { return 1 + optimizer_->passes(); }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    ApplyToVariable(*this, version, {gradient, count, in, out});
  }

  void Measure(int pass, const VariableFacts& variable, const ElementRun& run,
               NormSums* sums) const override {
    if (pass == 0) return sums->gradient.Add(run.gradient, run.count);
    ForEachShrunk(variable, run, [&](const ElementRun& shrunk) {
      optimizer_->Measure(pass - 1, variable, shrunk, sums);
    });
  }

  void ApplyMeasured(const VariableFacts& variable, const ElementRun& run) const override {
    ForEachShrunk(variable, run,
                  [&](const ElementRun& shrunk) { optimizer_->ApplyMeasured(variable, shrunk); });
  }

 private:
  template <typename Visit>
  void ForEachShrunk(const VariableFacts& variable, const ElementRun& run,
                     const Visit& visit) const {
    const double norm = std::sqrt(variable.norms.gradient);
    if (!(norm > clip_norm_)) return visit(run);
    const auto shrink = [factor = clip_norm_ / norm](const char* from, size_t count, float* to) {
      const FlushDenormals flush_denormals;
      Shrink(factor, from, count, to);
    };
    ForEachChanged(run, slots(), shrink, visit);
  }

  const std::unique_ptr<Optimizer> optimizer_;
  const double clip_norm_;
};

}  // namespace

std::unique_ptr<Optimizer> ClipGradients(std::unique_ptr<Optimizer> optimizer, float clip_value) {
  return std::make_unique<ClippingOptimizer>(std::move(optimizer), clip_value);
}

std::unique_ptr<Optimizer> ClipGradientNorms(std::unique_ptr<Optimizer> optimizer,
                                             double clip_norm) {
  return std::make_unique<NormClippingOptimizer>(std::move(optimizer), clip_norm);
}

}  // namespace millrace::ps
