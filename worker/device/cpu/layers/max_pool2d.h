// The largest value of each window of each channel.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"
#include "worker/model/window.h"

namespace millrace::worker {

// Padding never wins; of equal values the first one does, row by row. NaN is larger than all
// others, so that a model that has diverged shows it in its loss (oneDNN's pooling drops NaN).
class MaxPool2DLayer final : public CpuLayer {
 public:
  explicit MaxPool2DLayer(const LayerPlan& plan);

  void Prepare(size_t batch) override;
  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  // Positions [begin, end) of the image along one axis, which a window covers.
  struct Range {
    size_t begin;
    size_t end;
  };
  static std::vector<Range> WindowRanges(const LayerPlan& plan, int axis);

  // The largest values of one window of the image at `x`, and where in it they are.
  void Pool(const Range& rows, const Range& columns, const float* x, float* y,
            uint32_t* winners) const;

  const size_t width_;
  const size_t channels_;
  const size_t input_elements_;  // Of an example.
  const size_t output_elements_;
  const std::vector<Range> rows_;     // For each row of the output.
  const std::vector<Range> columns_;  // For each column.
  // For each element of the output, which element of its image it is.
  std::vector<uint32_t> winners_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_
