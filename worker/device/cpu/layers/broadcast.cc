#include "worker/device/cpu/layers/broadcast.h"

#include <algorithm>
#include <utility>

#include "worker/model/layer_traits.h"

namespace millrace::worker {
namespace {

constexpr size_t kLongestRun = 1024;  // So that what is repeated for it stays in the cache.

// Neighbouring dimensions of the output along which the same inputs are repeated.
struct Stretch {
  size_t size;
  std::vector<bool> repeated;  // Which of the inputs are.
};

std::vector<bool> RepeatedAlong(const LayerPlan& plan, size_t dimension) {
  const size_t from_last = plan.output.size() - dimension;
  std::vector<bool> repeated;
  for (const Shape& input : plan.inputs) {
    repeated.push_back(from_last > input.size() ||
                       input[input.size() - from_last] != plan.output[dimension]);
  }
  return repeated;
}

std::vector<Stretch> StretchesOf(const LayerPlan& plan) {
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < plan.output.size(); ++i) {
    if (plan.output[i] == 1) continue;
    std::vector<bool> repeated = RepeatedAlong(plan, i);
    if (!stretches.empty() && stretches.back().repeated == repeated) {
      stretches.back().size *= plan.output[i];
    } else {
      stretches.push_back({plan.output[i], std::move(repeated)});
    }
  }
  return stretches;
}

}  // namespace

BroadcastLayer::BroadcastLayer(const LayerPlan& plan, std::unique_ptr<CpuLayer> merge)
    : merge_(std::move(merge)),
      keeps_inputs_(TraitsOf(plan).keeps_inputs),
      inputs_(plan.inputs.size()),
      values_(plan.inputs.size()),
      gradients_(plan.inputs.size()) {
  const std::vector<Stretch> stretches = StretchesOf(plan);
  length_ = stretches.back().size;
  rows_ = ElementCount(plan.output) / length_;
  const size_t longest = std::min(length_, kLongestRun);
  for (size_t k = 0; k < inputs_.size(); ++k) {
    Input& input = inputs_[k];
    input.elements = ElementCount(plan.inputs[k]);
    input.repeated = input.elements != ElementCount(plan.output);
    input.stays = stretches.back().repeated[k];
    if (input.stays) input.values = CpuBuffer(longest);
    if (input.repeated) input.gradients = CpuBuffer(longest);
    size_t stride = input.elements;
    for (size_t i = 0; i + 1 < stretches.size(); ++i) {
      const bool repeated = stretches[i].repeated[k];
      if (!repeated) stride /= stretches[i].size;
      input.offsets.Add(stretches[i].size, repeated ? 0 : stride);
    }
  }
}

template <typename Visit>
void BroadcastLayer::ForEachRun(size_t batch, const Visit& visit) const {
  for (size_t example = 0; example < batch; ++example) {
    for (size_t row = 0; row < rows_; ++row) {
      for (size_t begin = 0; begin < length_; begin += kLongestRun) {
        visit(Run{example, row, begin, std::min(length_ - begin, kLongestRun)});
      }
    }
  }
}

size_t BroadcastLayer::OutputOffset(const Run& run) const {
  return (run.example * rows_ + run.row) * length_ + run.begin;
}

size_t BroadcastLayer::InputOffset(const Input& input, const Run& run) {
  return run.example * input.elements + input.offsets[run.row] + (input.stays ? 0 : run.begin);
}

void BroadcastLayer::TakeValues(absl::Span<const float* const> x, const Run& run) {
  for (size_t k = 0; k < x.size(); ++k) {
    const Input& input = inputs_[k];
    values_[k] = x[k] + InputOffset(input, run);
    if (!input.stays) continue;
    std::fill(input.values.data(), input.values.data() + run.length, *values_[k]);
    values_[k] = input.values.data();
  }
}

void BroadcastLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  CpuPass turn = pass;
  ForEachRun(pass.batch, [&](const Run& run) {
    TakeValues(x, run);
    turn.batch = run.length;
    merge_->Forward(turn, values_, y + OutputOffset(run));
  });
}

void BroadcastLayer::PlaceGradients(absl::Span<float* const> dx, const Run& run) {
  for (size_t k = 0; k < dx.size(); ++k) {
    gradients_[k] = nullptr;
    if (dx[k] == nullptr) continue;
    gradients_[k] =
        inputs_[k].repeated ? inputs_[k].gradients.data() : dx[k] + InputOffset(inputs_[k], run);
  }
}

void BroadcastLayer::AddGradients(absl::Span<float* const> dx, const Run& run) const {
  for (size_t k = 0; k < dx.size(); ++k) {
    const Input& input = inputs_[k];
    if (dx[k] == nullptr || !input.repeated) continue;
    float* const sum = dx[k] + InputOffset(input, run);
    const float* const part = input.gradients.data();
    if (input.stays) {
      for (size_t i = 0; i < run.length; ++i) *sum += part[i];
    } else {
      for (size_t i = 0; i < run.length; ++i) sum[i] += part[i];
    }
  }
}

void BroadcastLayer::Backward(const CpuPass& pass, absl::Span<const float* const> x,
                              const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  for (size_t k = 0; k < dx.size(); ++k) {
    if (dx[k] == nullptr || !inputs_[k].repeated) continue;
    std::fill(dx[k], dx[k] + pass.batch * inputs_[k].elements, 0.0f);
  }
  CpuPass turn = pass;
  ForEachRun(pass.batch, [&](const Run& run) {
    if (keeps_inputs_) TakeValues(x, run);
    PlaceGradients(dx, run);
    turn.batch = run.length;
    merge_->Backward(turn, values_, /*y=*/nullptr, dy + OutputOffset(run),
                     absl::MakeConstSpan(gradients_));
    AddGradients(dx, run);
  });
}

}  // namespace millrace::worker
