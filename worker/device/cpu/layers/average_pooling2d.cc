#include "worker/device/cpu/layers/average_pooling2d.h"

#include <algorithm>

namespace millrace::worker {
namespace {

float Area(const WindowRange& rows, const WindowRange& columns) {
  return static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
}

}  // namespace

AveragePooling2DLayer::AveragePooling2DLayer(const ImageWindow& window)
    : width_(window.input[1]),
      channels_(window.input[2]),
      input_elements_(ElementCount(window.input)),
      rows_(WindowRanges(window, 0)),
      columns_(WindowRanges(window, 1)) {}

void AveragePooling2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  for (size_t example = 0; example < pass.batch; ++example, x += input_elements_) {
    for (const WindowRange& rows : rows_) {
      for (const WindowRange& columns : columns_) {
        std::fill(y, y + channels_, 0.0f);
        for (size_t row = rows.begin; row < rows.end; ++row) {
          for (size_t column = columns.begin; column < columns.end; ++column) {
            const float* const pixel = x + (row * width_ + column) * channels_;
            for (size_t c = 0; c < channels_; ++c) y[c] += pixel[c];
          }
        }
        const float area = Area(rows, columns);
        for (size_t c = 0; c < channels_; ++c) y[c] /= area;
        y += channels_;
      }
    }
  }
}

void AveragePooling2DLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                                     float* dy, float* dx) {
  if (dx == nullptr) return;
  std::fill(dx, dx + pass.batch * input_elements_, 0.0f);
  for (size_t example = 0; example < pass.batch; ++example, dx += input_elements_) {
    for (const WindowRange& rows : rows_) {
      for (const WindowRange& columns : columns_) {
        const float area = Area(rows, columns);
        for (size_t row = rows.begin; row < rows.end; ++row) {
          for (size_t column = columns.begin; column < columns.end; ++column) {
            float* const pixel = dx + (row * width_ + column) * channels_;
            for (size_t c = 0; c < channels_; ++c) pixel[c] += dy[c] / area;
          }
        }
        dy += channels_;
      }
    }
  }
}

}  // namespace millrace::worker
