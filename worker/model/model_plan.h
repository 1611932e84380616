// A ModelSpec with every default filled in and every shape known: all that a device needs to
// compile it.
#ifndef MILLRACE_WORKER_MODEL_MODEL_PLAN_H_
#define MILLRACE_WORKER_MODEL_MODEL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"
#include "worker/input/example_spec.h"
#include "worker/model/layer_plan.h"
#include "worker/model/output_plan.h"
#include "worker/model/shape.h"

namespace millrace::worker {

struct ModelPlan {
  std::vector<LayerPlan> layers;     // As in the spec.
  std::vector<size_t> order;         // In which they run: each after those whose output it takes.
  std::vector<OutputPlan> outputs;   // At least one.
  std::vector<TensorSpec> features;  // What an example of a batch has.
  std::vector<TensorSpec> labels;    // The same; also those that no output learns.
  // In the order in which layers run, those of one layer as LayerPlan::variables.
  std::vector<VariableSpec> variables;
  std::vector<Regularizer> regularizers;  // Of each of them.
  // What a job says beside its model.
  PrecisionSpec::Compute precision = PrecisionSpec::FLOAT32;
  bool pulls_ahead = false;  // Model::next_values are asked for.
  // Of a plan with compact tables: what a model takes of the host's memory for the whole tables,
  // the gradients of compact ones, and values while it is made anew. It keeps batches of its own,
  // too. 0: any other plan.
  double host_bytes = 0;
};

// Checks `spec` against the examples that it is to learn from and infers every shape.
// INVALID_ARGUMENT: "model.layers[2] 'dense': ..." with what does not fit and what would.
absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec, const ExampleSpec& examples);
// Of a job's model, with what the job says beside it.
absl::StatusOr<ModelPlan> PlanModel(const JobSpec& spec, const ExampleSpec& examples);

// Whether the embeddings of `plan` have rows for the ids of such features, which are as those that
// it was made for in all else. INVALID_ARGUMENT as above.
absl::Status CheckIds(const ModelPlan& plan, const std::vector<TensorSpec>& features);

// Whether the losses of `plan` can take such labels: PlanModel's own check, for a second set of
// examples. INVALID_ARGUMENT as above.
absl::Status CheckLabels(const ModelPlan& plan, const ExampleSpec& examples);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_MODEL_PLAN_H_
