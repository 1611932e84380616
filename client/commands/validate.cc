#include "client/commands/validate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/load_job.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/evaluation_set.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/device/cpu/memory_need.h"
#include "worker/input/dataset.h"
#include "worker/model/flops.h"
#include "worker/model/layered_model.h"
#include "worker/model/model_plan.h"
#include "worker/model/shape.h"

namespace millrace::client {
namespace {

using Json = nlohmann::ordered_json;

// What a job will be on its data.
struct JobShape {
  std::string custom;       // The model that workers know by name; empty: there are layers.
  worker::ModelPlan model;  // Without a `custom`.
  uint64_t train_examples = 0;
  uint64_t evaluate_examples = 0;
  uint64_t steps = 0;
  double worker_bytes = 0;  // Memory that a worker needs, without a `custom`.
};

absl::StatusOr<JobShape> ShapeOf(const JobSpec& spec) {
  const DataSpec& data = spec.data();
  MILLRACE_ASSIGN_OR_RETURN(const auto train,
                            worker::OpenDataset(data.train(), data.directory(), "data.train"));
  JobShape shape;
  shape.train_examples = train->size();
  shape.custom = spec.model().custom().name();
  if (shape.custom.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(shape.model, worker::PlanModel(spec.model(), train->example()));
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
  if (shape.custom.empty()) {
    const worker::BatchSizes batches = {
        std::min<uint64_t>(spec.batch_size(), shape.train_examples),
        std::min<uint64_t>(EvaluationBatchSize(spec), shape.evaluate_examples)};
    shape.worker_bytes = worker::MemoryNeed(shape.model, batches);
  }
  return shape;
}

uint64_t ElementsOf(const VariableSpec& variable) {
  return worker::ElementCount({variable.shape().begin(), variable.shape().end()});
}

uint64_t Parameters(const worker::ModelPlan& model, const worker::LayerPlan& layer) {
  uint64_t parameters = 0;
  // Those that it shares count at the layer that they belong to.
  if (!layer.spec.variables_of().empty()) return 0;
  for (const int variable : layer.variables) {
    if (variable >= 0) parameters += ElementsOf(model.variables[static_cast<size_t>(variable)]);
  }
  return parameters;
}

// Of all layers.
struct Totals {
  uint64_t parameters = 0;
  uint64_t frozen = 0;
  double flops = 0;  // For an example, forwards.
};

Totals TotalsOf(const worker::ModelPlan& model) {
  Totals totals;
  for (const VariableSpec& variable : model.variables) {
    totals.parameters += ElementsOf(variable);
    if (variable.update().has_frozen()) totals.frozen += ElementsOf(variable);
  }
  for (const worker::LayerPlan& layer : model.layers) totals.flops += worker::ForwardFlops(layer);
  return totals;
}

std::string TakenText(const worker::LayerPlan& layer) {
  return absl::StrJoin(layer.spec.inputs(), ", ");
}

uint64_t BytesPushed(const Totals& totals) {
  return (totals.parameters - totals.frozen) * sizeof(float);
}

Json ToJson(const JobShape& shape) {
  if (!shape.custom.empty()) {
    return {{"valid", true},
            {"custom", shape.custom},
            {"train_examples", shape.train_examples},
            {"evaluate_examples", shape.evaluate_examples},
            {"steps", shape.steps}};
  }
  Json layers = Json::array();
  for (const worker::LayerPlan& layer : shape.model.layers) {
    layers.push_back({{"name", layer.spec.name()},
                      {"inputs", std::vector<std::string>(layer.spec.inputs().begin(),
                                                          layer.spec.inputs().end())},
                      {"output", layer.output},
                      {"parameters", Parameters(shape.model, layer)},
                      {"trainable", layer.trainable},
                      {"flops", worker::ForwardFlops(layer)}});
  }
  const Totals totals = TotalsOf(shape.model);
  return {{"valid", true},
          {"layers", layers},
          {"parameters", totals.parameters},
          {"frozen_parameters", totals.frozen},
          {"flops", totals.flops},
          {"bytes_pushed", BytesPushed(totals)},
          {"worker_bytes", shape.worker_bytes},
          {"train_examples", shape.train_examples},
          {"evaluate_examples", shape.evaluate_examples},
          {"steps", shape.steps}};
}

std::string SizesText(const JobShape& shape) {
  return absl::StrCat("training examples  ", FormatCount(shape.train_examples),
                      "\nheld-out examples  ", FormatCount(shape.evaluate_examples),
                      "\nsteps              ", FormatCount(shape.steps), "\n");
}

std::string ToText(const JobShape& shape) {
  if (!shape.custom.empty()) {
    return absl::StrCat("model              ", shape.custom,
                        ", which is not checked here: the workers that know it do, when the job is "
                        "submitted\n",
                        SizesText(shape));
  }
  Table table({"LAYER", "TAKES", "OUTPUT", "PARAMETERS", "FLOPS"});
  for (const worker::LayerPlan& layer : shape.model.layers) {
    table.AddRow({layer.spec.name(), TakenText(layer), worker::ShapeString(layer.output),
                  absl::StrCat(FormatCount(Parameters(shape.model, layer)),
                               layer.trainable || layer.variables.empty() ? "" : " (frozen)"),
                  FormatCount(static_cast<uint64_t>(worker::ForwardFlops(layer)))});
  }
  const Totals totals = TotalsOf(shape.model);
  const std::string frozen =
      totals.frozen == 0 ? "" : absl::StrCat(", ", FormatCount(totals.frozen), " of them frozen");
  return absl::StrCat(table.ToString(), "\nparameters         ", FormatCount(totals.parameters),
                      " (", FormatCount(totals.parameters * sizeof(float)), " bytes)", frozen,
                      "\nFLOPs, forwards    ", FormatCount(static_cast<uint64_t>(totals.flops)),
                      " for an example\npushed by a step   ", FormatBytes(BytesPushed(totals)),
                      "\nmemory of a worker ",
                      FormatBytes(static_cast<uint64_t>(shape.worker_bytes)), " beside its data\n",
                      SizesText(shape));
}

}  // namespace

absl::StatusOr<ExitCode> RunValidate(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(JobSpec spec, LoadJob(context.flags, ReadingFor(context)));
  const bool with_data = !spec.data().directory().empty();
  // Everything but where the data is can be checked without it.
  if (!with_data) spec.mutable_data()->set_directory("/");
  MILLRACE_RETURN_IF_ERROR(CheckJobSpec(spec));
  std::ostream& out = *context.console.out;
  if (!with_data) {
    if (context.flags.json) {
      out << JsonLine({{"valid", true}}) << std::flush;
    } else {
      out << context.flags.job_file
          << (spec.model().has_custom()
                  ? " is a valid job, whose model workers check that know it. With --data=DIR its "
                    "data are checked too."
                  : " is a valid job. With --data=DIR its model and data are checked too.")
          << std::endl;
    }
    return ExitCode::kSucceeded;
  }
  MILLRACE_ASSIGN_OR_RETURN(const JobShape shape, ShapeOf(spec));
  out << (context.flags.json ? JsonLine(ToJson(shape)) : ToText(shape)) << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
