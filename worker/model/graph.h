// Where the layers of a model take their inputs from, and the order in which they run.
#ifndef MILLRACE_WORKER_MODEL_GRAPH_H_
#define MILLRACE_WORKER_MODEL_GRAPH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/model.pb.h"
#include "worker/input/example_spec.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

struct ModelGraph {
  std::vector<std::vector<Source>> sources;  // Of each layer, at least one.
  // Every layer once, after those whose output it takes; of those that could come next, the first
  // of the list. A chain runs as it is written.
  std::vector<size_t> order;
};

// `spec` has named layers, at least one, and no two of a name. `outputs` are the layers whose
// output is the model's. INVALID_ARGUMENT: an input that does not exist, or could be two things; a
// circle; a layer whose output nobody takes.
absl::StatusOr<ModelGraph> ResolveGraph(const ModelSpec& spec,
                                        const std::vector<TensorSpec>& features,
                                        const std::vector<size_t>& outputs);

// The layer whose variables each layer uses: itself, or that of `variables_of`.
// INVALID_ARGUMENT: that one does not exist, has another kind, or has not its own.
absl::StatusOr<std::vector<size_t>> ResolveSharing(const ModelSpec& spec);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_GRAPH_H_
