#include "worker/device/cpu/layers/resize.h"

#include <algorithm>

namespace millrace::worker {

ZeroPadding2DLayer::ZeroPadding2DLayer(const LayerPlan& plan)
    : height_(plan.input()[0]),
      row_(plan.input()[1] * plan.input()[2]),
      padded_row_(plan.output[1] * plan.output[2]),
      above_(plan.spec.zero_padding2d().padding(0)),
      below_(plan.spec.zero_padding2d().padding(1)),
      left_(plan.spec.zero_padding2d().padding(2) * plan.input()[2]) {}

void ZeroPadding2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const size_t rows = above_ + height_ + below_;
  std::fill(y, y + pass.batch * rows * padded_row_, 0.0f);
  for (size_t example = 0; example < pass.batch; ++example, y += rows * padded_row_) {
    for (size_t row = 0; row < height_; ++row, x += row_) {
      std::copy(x, x + row_, y + (above_ + row) * padded_row_ + left_);
    }
  }
}

void ZeroPadding2DLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                                  float* dy, float* dx) {
  if (dx == nullptr) return;
  const size_t rows = above_ + height_ + below_;
  for (size_t example = 0; example < pass.batch; ++example, dy += rows * padded_row_) {
    for (size_t row = 0; row < height_; ++row, dx += row_) {
      const float* const from = dy + (above_ + row) * padded_row_ + left_;
      std::copy(from, from + row_, dx);
    }
  }
}

UpSampling2DLayer::UpSampling2DLayer(const LayerPlan& plan)
    : height_(plan.input()[0]),
      width_(plan.input()[1]),
      channels_(plan.input()[2]),
      rows_(plan.spec.up_sampling2d().size(0)),
      columns_(plan.spec.up_sampling2d().size(1)) {}

void UpSampling2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const size_t wide = width_ * columns_ * channels_;  // Floats in a row of the output.
  for (size_t row = 0; row < pass.batch * height_; ++row) {
    float* const first = y;
    for (size_t column = 0; column < width_; ++column, x += channels_) {
      for (size_t i = 0; i < columns_; ++i, y += channels_) std::copy(x, x + channels_, y);
    }
    for (size_t i = 1; i < rows_; ++i, y += wide) std::copy(first, first + wide, y);
  }
}

void UpSampling2DLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                                 float* dy, float* dx) {
  if (dx == nullptr) return;
  std::fill(dx, dx + pass.batch * height_ * width_ * channels_, 0.0f);
  for (size_t row = 0; row < pass.batch * height_; ++row, dx += width_ * channels_) {
    for (size_t i = 0; i < rows_; ++i) {
      for (size_t column = 0; column < width_ * columns_; ++column, dy += channels_) {
        float* const pixel = dx + column / columns_ * channels_;
        for (size_t c = 0; c < channels_; ++c) pixel[c] += dy[c];
      }
    }
  }
}

}  // namespace millrace::worker
