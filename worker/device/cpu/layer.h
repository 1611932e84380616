// The seam between a model and its layers on the CPU; one member of layers/ for each kind.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYER_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYER_H_

#include <cstddef>
#include <cstdint>

#include "worker/model/model.h"

namespace millrace::worker {

// One run through the model, forwards and perhaps backwards.
struct CpuPass {
  size_t batch = 0;  // Examples.
  bool training = false;
  uint64_t seed = 0;  // Of the dropout.
  GradientSink* gradients = nullptr;
};

// Where the values of a layer's variables stand (null where it has none). They do not move; between
// passes they change.
struct CpuParameters {
  const float* kernel = nullptr;
  const float* bias = nullptr;
};

// Values are dense and row-major, the batch first and channels last. A layer keeps what it needs
// from the forward to the backward pass over the same batch. Used by one thread at a time; throws
// as CpuContext does.
class CpuLayer {
 public:
  virtual ~CpuLayer() = default;

  // The output is the input, seen with another shape: no memory is kept for it, and Forward and
  // Backward are not called.
  virtual bool IsView() const { return false; }

  // Makes what a pass over `batch` examples needs, so that errors come before the first step.
  virtual void Prepare(size_t /*batch*/) {}

  // Computes y, the output, from x, the input.
  virtual void Forward(const CpuPass& pass, const float* x, float* y) = 0;

  // Takes x and y of the forward pass, and in dy the gradient of the loss by y (which it may
  // overwrite). Finishes the gradients of the layer's variables, then writes the gradient by x to
  // dx, unless that is null.
  virtual void Backward(const CpuPass& pass, const float* x, const float* y, float* dy,
                        float* dx) = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYER_H_
