// An OutputSpec with every default filled in: what an output's loss and metrics need to know.
#ifndef MILLRACE_WORKER_MODEL_OUTPUT_PLAN_H_
#define MILLRACE_WORKER_MODEL_OUTPUT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/model.pb.h"
#include "protos/output.pb.h"
#include "worker/input/example_spec.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

struct MetricPlan {
  Metric metric = METRIC_UNSPECIFIED;
  std::string name;  // As it is reported: "NAME_accuracy", of a single output "accuracy".
  uint32_t k = 0;    // TOP_K_ACCURACY.
  uint32_t num_thresholds = 0;  // AUC; 0: exact.
};

struct OutputPlan {
  std::string path;         // "model.outputs[1]", of the short form "model": for messages.
  std::string name;         // Its layer's; empty: the model has no other output.
  size_t layer = 0;         // Whose output it is: an index into ModelPlan::layers.
  size_t label = 0;         // An index into ExampleSpec::labels and Batch::labels.
  std::string label_name;   // For messages.
  bool label_is_id = true;  // A class; otherwise floats, `width` of them.
  uint64_t width = 0;       // Numbers of the output for each example.
  Loss loss = LOSS_UNSPECIFIED;
  double label_smoothing = 0;
  double huber_delta = 1;
  std::vector<float> class_weights;  // Empty: 1.
  double weight = 1;
  std::vector<MetricPlan> metrics;

  // Of losses with classes; 2 of a binary one.
  uint64_t classes() const { return loss == BINARY_CROSSENTROPY ? 2 : width; }
  // What the number is reported as: "NAME_loss", of a single output "loss".
  std::string ReportedName(const std::string& number) const {
    return name.empty() ? number : name + "_" + number;
  }
};

// Of which layers the outputs of `spec` are, in their order. INVALID_ARGUMENT:
// "model.outputs[1]...". REQUIRES: each layer has a name or a kind.
absl::StatusOr<std::vector<size_t>> FindOutputLayers(const ModelSpec& spec);

// Checks the outputs of `spec`, whose layers are planned, against them and against the examples.
// INVALID_ARGUMENT: "model.outputs[1]...: ..." or "model.layers[2] 'dense': ..." with what does not
// fit and what would.
absl::StatusOr<std::vector<OutputPlan>> PlanOutputs(const ModelSpec& spec,
                                                    absl::Span<const LayerPlan> layers,
                                                    const ExampleSpec& examples);

// Whether the output can be compared with its label in such examples: PlanOutputs's own check, for
// a second set of examples. INVALID_ARGUMENT as above.
absl::Status CheckLabel(const OutputPlan& output, absl::Span<const LayerPlan> layers,
                        const ExampleSpec& examples);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_OUTPUT_PLAN_H_
