#include "worker/device/cpu/layers/layer_normalization.h"

#include <algorithm>
#include <cmath>

#include "worker/model/walk.h"

namespace millrace::worker {

LayerNormalizationLayer::LayerNormalizationLayer(const LayerPlan& plan,
                                                 const CpuParameters& parameters)
    : rows_(ElementCount(plan.input()) / plan.input().back()),
      columns_(plan.input().back()),
      epsilon_(static_cast<float>(plan.spec.layer_normalization().epsilon())),
      trained_(IsTrained(plan)),
      gamma_(plan.variable(kGamma)),
      beta_(plan.variable(kBeta)),
      parameters_(parameters),
      ones_(columns_, 1.0f) {}

void LayerNormalizationLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const float* const gamma = gamma_ < 0 ? ones_.data() : parameters_[kGamma];
  const float columns = static_cast<float>(columns_);
  float* kept = pass.kept;
  for (size_t row = 0; row < pass.batch * rows_; ++row, x += columns_, y += columns_, kept += 2) {
    float mean = 0;
    for (size_t i = 0; i < columns_; ++i) mean += x[i];
    mean /= columns;
    float squares = 0;
    for (size_t i = 0; i < columns_; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float scale = 1 / std::sqrt(squares / columns + epsilon_);
    for (size_t i = 0; i < columns_; ++i) y[i] = (x[i] - mean) * scale * gamma[i];
    if (beta_ >= 0) {
      for (size_t i = 0; i < columns_; ++i) y[i] += parameters_[kBeta][i];
    }
    kept[0] = mean;
    kept[1] = scale;
  }
}

void LayerNormalizationLayer::FinishGradients(const CpuPass& pass, const float* x,
                                              const float* dy) const {
  const size_t rows = pass.batch * rows_;
  if (beta_ >= 0) {
    float* const sums = pass.gradients->Buffer(beta_).data();
    std::fill(sums, sums + columns_, 0.0f);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < columns_; ++i) sums[i] += dy[row * columns_ + i];
    }
    pass.gradients->Finished(beta_);
  }
  if (gamma_ < 0) return;
  float* const sums = pass.gradients->Buffer(gamma_).data();
  std::fill(sums, sums + columns_, 0.0f);
  for (size_t row = 0; row < rows; ++row) {
    const float mean = pass.kept[2 * row];
    const float scale = pass.kept[2 * row + 1];
    for (size_t i = 0; i < columns_; ++i) {
      sums[i] += dy[row * columns_ + i] * (x[row * columns_ + i] - mean) * scale;
    }
  }
  pass.gradients->Finished(gamma_);
}

// With z the normalised row and g = dy * gamma: dx = (g - mean(g) - z * mean(g * z)) * scale.
void LayerNormalizationLayer::Backward(const CpuPass& pass, const float* x, const float* /*y*/,
                                       float* dy, float* dx) {
  if (trained_) FinishGradients(pass, x, dy);
  if (dx == nullptr) return;
  const float* const gamma = gamma_ < 0 ? ones_.data() : parameters_[kGamma];
  const float columns = static_cast<float>(columns_);
  for (size_t row = 0; row < pass.batch * rows_; ++row) {
    const float mean = pass.kept[2 * row];
    const float scale = pass.kept[2 * row + 1];
    float sum = 0;
    float product = 0;
    for (size_t i = 0; i < columns_; ++i) {
      const float g = dy[i] * gamma[i];
      sum += g;
      product += g * (x[i] - mean) * scale;
    }
    for (size_t i = 0; i < columns_; ++i) {
      const float z = (x[i] - mean) * scale;
      dx[i] = (dy[i] * gamma[i] - sum / columns - z * (product / columns)) * scale;
    }
    x += columns_;
    dy += columns_;
    dx += columns_;
  }
}

}  // namespace millrace::worker
