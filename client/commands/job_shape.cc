#include "client/commands/job_shape.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/progress/format.h"
#include "common/evaluation_set.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "common/wire/encoding.h"
#include "coordinator/placement/placement.h"
#include "worker/device/cpu/memory_need.h"
#include "worker/input/cifar_dataset.h"
#include "worker/input/dataset.h"
#include "worker/input/example_spec.h"
#include "worker/model/compact_tables.h"
#include "worker/model/flops.h"
#include "worker/model/layered_model.h"
#include "worker/model/shape.h"
#include "worker/model/table_rows.h"

namespace millrace::client {
namespace {

uint64_t ElementsOf(const VariableSpec& variable) {
  return worker::ElementCount({variable.shape().begin(), variable.shape().end()});
}

// None: only the files tell. Which classes there are they tell anyway.
absl::optional<worker::ExampleSpec> KnownExample(const Dataset& set) {
  constexpr int64_t kNotKnown = 0;
  if (set.has_cifar()) return worker::CifarExample(set.cifar());
  if (!set.has_image_folder()) return absl::nullopt;
  const ImageFolder& folder = set.image_folder();
  return worker::FloatsAndClass({folder.height(), folder.width(), folder.grey() ? 1u : 3u},
                                kNotKnown);
}

// As the coordinator does when it has a plan of a job.
absl::Status CheckShards(const JobSpec& spec, const worker::ModelPlan& model) {
  const uint32_t shards = spec.placement().shards();
  const coordinator::Variables variables(model.variables.begin(), model.variables.end());
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t elements, coordinator::CountElements(variables));
  if (!NeedsWholeVariables(spec.optimizer())) return coordinator::CheckShardCount(shards, elements);
  return coordinator::CheckWholeShardCount(shards, variables);
}

}  // namespace

absl::Status CheckKnownShapes(const JobSpec& spec) {
  const absl::optional<worker::ExampleSpec> example = KnownExample(spec.data().train());
  if (spec.model().has_custom() || !example.has_value()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const worker::ModelPlan model,
                            worker::PlanModel(spec.model(), *example));
  return CheckShards(spec, model);
}

absl::StatusOr<JobShape> ShapeOf(const JobSpec& spec) {
  const DataSpec& data = spec.data();
  MILLRACE_ASSIGN_OR_RETURN(const auto train,
                            worker::OpenDataset(data.train(), data.directory(), "data.train"));
  JobShape shape;
  shape.train_examples = train->size();
  shape.custom = spec.model().custom().name();
  if (shape.custom.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(shape.model, worker::PlanModel(spec, train->example()));
    MILLRACE_RETURN_IF_ERROR(CheckShards(spec, shape.model));
  }
  if (data.has_evaluate()) {
    MILLRACE_ASSIGN_OR_RETURN(
        const auto evaluate,
        worker::OpenDataset(EvaluationSet(data), data.directory(), "data.evaluate"));
    if (shape.custom.empty()) {
      MILLRACE_RETURN_IF_ERROR(worker::CheckEvaluationSet(shape.model, *evaluate));
    }
    shape.evaluate_examples = evaluate->size();
  }
  shape.steps = TotalSteps(spec, shape.train_examples);
  shape.wire = spec.precision().wire();
  if (shape.custom.empty()) {
    shape.batch_size = std::min<uint64_t>(spec.batch_size(), shape.train_examples);
    const worker::BatchSizes batches = {
        shape.batch_size, std::min<uint64_t>(EvaluationBatchSize(spec), shape.evaluate_examples)};
    shape.worker_bytes = worker::MemoryNeed(worker::PlanForDevice(shape.model, batches), batches);
  }
  return shape;
}

uint64_t Parameters(const worker::ModelPlan& model, const worker::LayerPlan& layer) {
  uint64_t parameters = 0;
  if (!layer.spec.variables_of().empty()) return 0;
  for (const int variable : layer.variables) {
    if (variable >= 0) parameters += ElementsOf(model.variables[static_cast<size_t>(variable)]);
  }
  return parameters;
}

ParameterCounts CountParameters(const worker::ModelPlan& model) {
  ParameterCounts counts;
  for (const VariableSpec& variable : model.variables) {
    uint64_t& count = variable.update().has_frozen()           ? counts.frozen
                      : variable.update().has_moving_average() ? counts.statistics
                                                               : counts.trainable;
    count += ElementsOf(variable);
  }
  return counts;
}

double ForwardFlops(const worker::ModelPlan& model) {
  double flops = 0;
  for (const worker::LayerPlan& layer : model.layers) flops += worker::ForwardFlops(layer);
  return flops;
}

uint64_t BytesPushed(const JobShape& shape) {
  const ParameterCounts counts = CountParameters(shape.model);
  const auto others =
      static_cast<uint64_t>(worker::ElementsWithoutGradients(shape.model, shape.batch_size));
  return (counts.trainable - others) * WidthOf(shape.wire) + counts.statistics * sizeof(float);
}

std::string SizesText(const JobShape& shape) {
  return absl::StrCat("training examples  ", FormatCount(shape.train_examples),
                      "\nheld-out examples  ", FormatCount(shape.evaluate_examples),
                      "\nsteps              ", FormatCount(shape.steps), "\n");
}

}  // namespace millrace::client
