// The seam between a model and its layers on the CPU; one member of layers/ for each kind.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYER_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/device/cpu/buffer.h"
#include "worker/input/batch.h"
#include "worker/model/model.h"

namespace millrace::worker {

// One run through the model, forwards and perhaps backwards.
struct CpuPass {
  size_t batch = 0;  // Examples.
  bool training = false;
  uint64_t seed = 0;  // Of the dropout.
  GradientSink* gradients = nullptr;
  const std::vector<Tensor>* features = nullptr;  // Of the batch, for layers that take ids.
  // Memory of the layer whose turn it is (LayerTraits::kept); null: it needs none.
  float* kept = nullptr;
};

// Where the values of a layer's variables stand, as LayerPlan::variables. Between passes they may
// change, and move.
class CpuParameters {
 public:
  // Of the next role; null: the layer has none. The buffer must outlive the layer.
  void Add(const CpuBuffer* values) { values_.push_back(values); }

  // Null: the layer has none.
  const float* operator[](size_t role) const {
    return role < values_.size() && values_[role] != nullptr ? values_[role]->data() : nullptr;
  }

 private:
  std::vector<const CpuBuffer*> values_;
};

// Values are dense and row-major, the batch first and channels last. A layer keeps what it needs
// from the forward to the backward pass over the same batch in CpuPass::kept, and takes and
// overwrites no more than its LayerTraits say. Used by one thread at a time; throws as CpuContext
// does.
class CpuLayer {
 public:
  virtual ~CpuLayer() = default;

  // Makes what a pass over `batch` examples needs, so that errors come before the first step.
  virtual void Prepare(size_t /*batch*/) {}

  // Computes y, the output, from x, the inputs.
  virtual void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) = 0;

  // Takes x and y of the forward pass, and in dy the gradient of the loss by y (which it may
  // overwrite). Finishes the gradients of the layer's variables, if it is trained, then writes the
  // gradient by each input to dx, but where that is null.
  virtual void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y,
                        float* dy, absl::Span<float* const> dx) = 0;
};

// A layer that takes one input.
class CpuUnaryLayer : public CpuLayer {
 public:
  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) final {
    Forward(pass, x.front(), y);
  }
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) final {
    Backward(pass, x.front(), y, dy, dx.front());
  }

  virtual void Forward(const CpuPass& pass, const float* x, float* y) = 0;
  virtual void Backward(const CpuPass& pass, const float* x, const float* y, float* dy,
                        float* dx) = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYER_H_
