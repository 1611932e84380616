// One layer with every default filled in and its shapes known.
#ifndef MILLRACE_WORKER_MODEL_LAYER_PLAN_H_
#define MILLRACE_WORKER_MODEL_LAYER_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// Limits that keep sizes and offsets far from overflow: of one example anywhere in the model (1 GiB
// of values), and of one variable (4 TiB).
inline constexpr uint64_t kMaxExampleElements = uint64_t{1} << 28;
inline constexpr uint64_t kMaxVariableElements = uint64_t{1} << 40;

// Where a layer's input comes from.
struct Source {
  enum Kind { kFeature, kLayer };
  Kind kind = kFeature;
  size_t index = 0;  // Of the feature in ExampleSpec::features, or of the layer in the model.
};

// Which of a layer's variables is which, in LayerPlan::variables.
inline constexpr size_t kKernel = 0;
inline constexpr size_t kBias = 1;
// Of normalizations.
inline constexpr size_t kGamma = 0;
inline constexpr size_t kBeta = 1;
inline constexpr size_t kMovingMean = 2;
inline constexpr size_t kMovingVariance = 3;
// Of an embedding.
inline constexpr size_t kEmbeddings = 0;

struct LayerPlan {
  LayerSpec spec;  // Name, inputs and the kind's defaults are filled in.
  std::vector<Source> sources;
  std::vector<Shape> inputs;  // Of each source, at least one.
  Shape output;
  // Indices into ModelPlan::variables, -1 where the layer has none: see above.
  std::vector<int> variables;
  // Of each of these, if the layer has them of its own. Fewer: of the others none.
  std::vector<Regularizer> regularizers;
  bool trainable = true;  // What its variables say: shared ones belong to another layer.
  // The input is a feature of ids, which has no shape if it is ragged.
  bool takes_ids = false;
  bool ragged = false;

  // Of a layer that takes one.
  const Shape& input() const { return inputs.front(); }
  // -1: none.
  int variable(size_t which) const { return which < variables.size() ? variables[which] : -1; }
};

// Completes `layer`, whose spec, inputs and `trainable` are given and whose name is filled in:
// defaults, output shape, variables (added to `variables`). INVALID_ARGUMENT: what does not fit,
// and what would; the message does not name the layer.
absl::Status PlanLayer(LayerPlan* layer, std::vector<VariableSpec>* variables);

// The activation that ends the layer; LINEAR where it has none.
Activation LastActivation(const LayerSpec& layer);

// Whether some input of a merge is repeated. All that have as many elements as the output have them
// in the same order. REQUIRES: an elementwise merge, planned.
bool Broadcasts(const LayerPlan& layer);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYER_PLAN_H_
