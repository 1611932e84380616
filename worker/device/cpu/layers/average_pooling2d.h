// The mean of each window, of images or sequences.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_AVERAGE_POOLING2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_AVERAGE_POOLING2D_H_

#include <cstddef>
#include <vector>

#include "worker/device/cpu/layer.h"
#include "worker/model/image_window.h"
#include "worker/model/window.h"

namespace millrace::worker {

class AveragePooling2DLayer final : public CpuUnaryLayer {
 public:
  explicit AveragePooling2DLayer(const ImageWindow& window);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const size_t width_;
  const size_t channels_;
  const size_t input_elements_;             // Of an example.
  const std::vector<WindowRange> rows_;     // For each row of the output.
  const std::vector<WindowRange> columns_;  // For each column.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_AVERAGE_POOLING2D_H_
