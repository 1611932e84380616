// Images that become larger: zeros around them, or each pixel several times.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_RESIZE_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_RESIZE_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

class ZeroPadding2DLayer final : public CpuUnaryLayer {
 public:
  explicit ZeroPadding2DLayer(const LayerPlan& plan);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const size_t height_;  // Of the input.
  const size_t row_;     // Its floats in a row.
  const size_t padded_row_;
  const size_t above_;  // Rows.
  const size_t below_;
  const size_t left_;  // Floats.
};

class UpSampling2DLayer final : public CpuUnaryLayer {
 public:
  explicit UpSampling2DLayer(const LayerPlan& plan);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const size_t height_;  // Of the input.
  const size_t width_;
  const size_t channels_;
  const size_t rows_;     // Of the output, for each of the input.
  const size_t columns_;  // Likewise.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_RESIZE_H_
