#include "worker/device/cpu/layers/max_pool2d.h"

#include <algorithm>

#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

// Takes over what is larger in the pixel whose first channel is element `element` of its image.
// Written for the vectoriser: every channel is stored, whether it changes or not.
void TakeLarger(size_t channels, const float* __restrict pixel, uint32_t element,
                float* __restrict largest, uint32_t* __restrict winners) {
  for (size_t c = 0; c < channels; ++c) {
    const bool take = (pixel[c] > largest[c]) | (pixel[c] != pixel[c]);
    largest[c] = take ? pixel[c] : largest[c];
    winners[c] = take ? element + static_cast<uint32_t>(c) : winners[c];
  }
}

}  // namespace

MaxPool2DLayer::MaxPool2DLayer(const ImageWindow& window)
    : width_(window.input[1]),
      channels_(window.input[2]),
      input_elements_(ElementCount(window.input)),
      output_elements_(ElementCount(window.output)),
      rows_(WindowRanges(window, 0)),
      columns_(WindowRanges(window, 1)) {}

void MaxPool2DLayer::Pool(const WindowRange& rows, const WindowRange& columns, const float* x,
                          float* y, uint32_t* winners) const {
  const size_t first = (rows.begin * width_ + columns.begin) * channels_;
  std::copy(x + first, x + first + channels_, y);
  for (size_t c = 0; c < channels_; ++c) winners[c] = static_cast<uint32_t>(first + c);
  for (size_t row = rows.begin; row < rows.end; ++row) {
    for (size_t column = columns.begin; column < columns.end; ++column) {
      const size_t element = (row * width_ + column) * channels_;
      TakeLarger(channels_, x + element, static_cast<uint32_t>(element), y, winners);
    }
  }
}

void MaxPool2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  uint32_t* winners = reinterpret_cast<uint32_t*>(pass.kept);
  for (size_t example = 0; example < pass.batch; ++example) {
    for (const WindowRange& rows : rows_) {
      for (const WindowRange& columns : columns_) {
        Pool(rows, columns, x, y, winners);
        y += channels_;
        winners += channels_;
      }
    }
    x += input_elements_;
  }
}

void MaxPool2DLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                              float* dy, float* dx) {
  if (dx == nullptr) return;
  std::fill(dx, dx + pass.batch * input_elements_, 0.0f);
  const uint32_t* winners = reinterpret_cast<const uint32_t*>(pass.kept);
  for (size_t example = 0; example < pass.batch; ++example) {
    for (size_t i = 0; i < output_elements_; ++i) dx[winners[i]] += dy[i];
    dx += input_elements_;
    dy += output_elements_;
    winners += output_elements_;
  }
}

}  // namespace millrace::worker
