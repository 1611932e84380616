// Values stand row-major already: only their shape changes.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_FLATTEN_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_FLATTEN_H_

#include "worker/device/cpu/layer.h"

namespace millrace::worker {

class FlattenLayer final : public CpuLayer {
 public:
  bool IsView() const override { return true; }
  void Forward(const CpuPass& /*pass*/, const float* /*x*/, float* /*y*/) override {}
  void Backward(const CpuPass& /*pass*/, const float* /*x*/, const float* /*y*/, float* /*dy*/,
                float* /*dx*/) override {}
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_FLATTEN_H_
