// Runs the layers of a model, as its walk and its memory plan say.
#ifndef MILLRACE_WORKER_DEVICE_CPU_PASSES_H_
#define MILLRACE_WORKER_DEVICE_CPU_PASSES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/device/cpu/buffer.h"
#include "worker/device/cpu/context.h"
#include "worker/device/cpu/gradient_sums.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/device.h"
#include "worker/input/batch.h"
#include "worker/model/memory_plan.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Takes all its memory when it is made. Used by one thread at a time; throws as CpuContext does.
class CpuPasses {
 public:
  // `plan` and the variables' `values` must outlive it; between passes their memory may change.
  CpuPasses(const ModelPlan& plan, const BatchSizes& batches, const std::vector<CpuBuffer>& values);

  // Runs all layers, of which those that are trained keep what Backward needs if the pass is
  // training. The values that a layer takes from the batch are read in place.
  // REQUIRES: the batch is as the plan's features say, and not larger than it was made for.
  void Forward(const CpuPass& pass, const Batch& batch);

  // After Forward: an output of the model, counted as in ModelPlan::outputs.
  absl::Span<const float> Output(const CpuPass& pass, const Batch& batch, size_t output) const;

  // After Forward of a training pass, and for each output once, in order: where to write the loss's
  // gradient by it, before the next one is asked for; null: it is not needed.
  float* OutputGradient(size_t output) const;

  // After all of these. Finishes the gradients of all variables that are trained.
  void Backward(const CpuPass& pass, const Batch& batch);

  // What the variables' regularizers add to the mean loss.
  double Penalty() const { return sums_.Penalty(); }

  // What it keeps for values and gradients: MemoryNeed has counted it.
  size_t floats() const { return memory_.size() + sums_.floats(); }

 private:
  CpuParameters ParametersOf(const LayerPlan& layer, const std::vector<CpuBuffer>& values) const;
  void MakeLayers(const BatchSizes& batches, const std::vector<CpuBuffer>& values);
  void ConvertBytes(const MemoryPlan& places, const Batch& batch);

  const MemoryPlan& PlacesOf(const CpuPass& pass) const {
    return pass.training ? training_ : evaluation_;
  }
  // Null: nowhere.
  float* At(size_t place) const { return place == kNoPlace ? nullptr : memory_.data() + place; }
  // A value in the memory or in the batch.
  const float* Value(const MemoryPlan& places, const Batch& batch, size_t value) const;
  void AddUp(const GradientPlace& gradient, size_t count) const;

  const ModelPlan& plan_;
  const Walk walk_;
  const MemoryPlan training_;
  const MemoryPlan evaluation_;
  CpuContext context_;
  CpuBuffer memory_;
  GradientSums sums_;
  std::vector<std::unique_ptr<CpuLayer>> layers_;  // Null: a view.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_PASSES_H_
