// The largest value of each window of each channel, of images or sequences.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/cpu/layer.h"
#include "worker/model/image_window.h"
#include "worker/model/window.h"

namespace millrace::worker {

// Padding never wins; of equal values the first one does, row by row. NaN is larger than all
// others, so that a model that has diverged shows it in its loss (oneDNN's pooling drops NaN).
// Keeps, for each element of the output, which element of its image it is.
class MaxPool2DLayer final : public CpuUnaryLayer {
 public:
  explicit MaxPool2DLayer(const ImageWindow& window);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  // The largest values of one window of the image at `x`, and where in it they are.
  void Pool(const WindowRange& rows, const WindowRange& columns, const float* x, float* y,
            uint32_t* winners) const;

  const size_t width_;
  const size_t channels_;
  const size_t input_elements_;  // Of an example.
  const size_t output_elements_;
  const std::vector<WindowRange> rows_;     // For each row of the output.
  const std::vector<WindowRange> columns_;  // For each column.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_
