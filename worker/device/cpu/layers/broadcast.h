// A merge of inputs of which some are repeated along dimensions, as NumPy does.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_BROADCAST_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_BROADCAST_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "worker/device/cpu/buffer.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/layers/row_offsets.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Goes through the output in runs, along each of which an input either goes on element by element
// or stays at one, which is then repeated for the run; so the merge itself sees inputs of one size.
// Gradients of what is repeated are added up in the order of the output.
class BroadcastLayer final : public CpuLayer {
 public:
  // `merge` is made for examples of one element: a run is a batch of these.
  // REQUIRES: Broadcasts(plan).
  BroadcastLayer(const LayerPlan& plan, std::unique_ptr<CpuLayer> merge);

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  struct Input {
    size_t elements = 0;    // Of an example.
    bool repeated = false;  // Its gradients are sums.
    bool stays = false;     // Along runs.
    RowOffsets offsets;     // Of the output's rows.
    CpuBuffer values;       // Of a run, where it stays.
    CpuBuffer gradients;    // Of a run, where they are added up.
  };
  // Elements of the output, one after the other.
  struct Run {
    size_t example;
    size_t row;
    size_t begin;  // In the row.
    size_t length;
  };
  template <typename Visit>
  void ForEachRun(size_t batch, const Visit& visit) const;
  size_t OutputOffset(const Run& run) const;
  static size_t InputOffset(const Input& input, const Run& run);
  // Fills values_.
  void TakeValues(absl::Span<const float* const> x, const Run& run);
  // Fills gradients_ with where the merge is to write those of the run.
  void PlaceGradients(absl::Span<float* const> dx, const Run& run);
  // Those that are not in dx yet.
  void AddGradients(absl::Span<float* const> dx, const Run& run) const;

  const std::unique_ptr<CpuLayer> merge_;
  const bool keeps_inputs_;
  std::vector<Input> inputs_;
  size_t rows_ = 1;    // Of the output, in an example.
  size_t length_ = 1;  // Of each.
  // Of the run whose turn it is.
  std::vector<const float*> values_;
  std::vector<float*> gradients_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_BROADCAST_H_
