// A compiled model on the CPU.
#ifndef MILLRACE_WORKER_DEVICE_CPU_CPU_MODEL_H_
#define MILLRACE_WORKER_DEVICE_CPU_CPU_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/device/cpu/buffer.h"
#include "worker/device/cpu/numerics.h"
#include "worker/device/cpu/output_heads.h"
#include "worker/device/cpu/passes.h"
#include "worker/device/device.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// All memory for values is taken when it is made; steps take none, save for the first of each size
// of batch. Runs in the thread that calls it and, with more than one, in that thread's OpenMP team.
// INTERNAL: oneDNN reported an error.
class CpuModel final : public Model {
 public:
  // Statuses as Device::Compile.
  static absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                        const BatchSizes& batches, int threads);

  const std::vector<VariableSpec>& variables() const override { return plan_.variables; }
  std::string numerics() const override { return CpuNumerics(threads_); }
  absl::Span<float> values(size_t variable) override;
  // They have memory of their own.
  bool has_next_values() const override { return !next_values_.empty(); }
  absl::Span<float> next_values(size_t variable) override;
  void TakeNextValues() override;

  // OUT_OF_RANGE: the loss is not finite; no gradient was finished. INVALID_ARGUMENT: a label that
  // the loss does not take.
  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                    GradientSink* gradients) override;
  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override;

  // Of memory for variables, values and gradients.
  size_t bytes() const;

 private:
  CpuModel(const ModelPlan& plan, const BatchSizes& batches, int threads);

  // What Forward left of each output, and where the gradients by them go.
  std::vector<CpuOutputHeads::Place> OutputPlaces(const CpuPass& pass, const Batch& batch) const;

  const ModelPlan plan_;
  const BatchSizes batches_;
  const int threads_;
  // One for each variable; of the next ones none where nothing is pulled ahead. Layers refer to the
  // first ones, whatever memory these have.
  std::vector<CpuBuffer> values_;
  std::vector<CpuBuffer> next_values_;
  CpuPasses passes_;
  const CpuOutputHeads heads_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_CPU_MODEL_H_
