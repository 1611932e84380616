#include "client/commands/summary.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/job_shape.h"
#include "client/commands/load_job.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/model/batch_sizes.h"
#include "worker/model/flops.h"
#include "worker/model/shape.h"

namespace millrace::client {
namespace {

using SummaryJson = nlohmann::ordered_json;

// As the job says it: "conv2d".
std::string KindOf(const LayerSpec& layer) {
  const auto* kinds = LayerSpec::descriptor()->FindOneofByName("kind");
  return layer.GetReflection()->GetOneofFieldDescriptor(layer, kinds)->name();
}

// "1,056", "8 (frozen)", "0 (those of 'first')".
std::string ParametersText(const worker::ModelPlan& model, const worker::LayerPlan& layer) {
  const std::string& owner = layer.spec.variables_of();
  const bool frozen = !layer.trainable && !layer.variables.empty();
  return absl::StrCat(FormatCount(Parameters(model, layer)), frozen ? " (frozen)" : "",
                      owner.empty() ? "" : absl::StrCat(" (those of '", owner, "')"));
}

std::string LayersText(const worker::ModelPlan& model) {
  Table table({"LAYER (KIND)", "INPUTS", "OUTPUT", "PARAMETERS", "FLOPS"});
  for (const worker::LayerPlan& layer : model.layers) {
    table.AddRow({absl::StrCat(layer.spec.name(), " (", KindOf(layer.spec), ")"),
                  absl::StrJoin(layer.spec.inputs(), ", "), worker::ShapeString(layer.output),
                  ParametersText(model, layer),
                  FormatCount(static_cast<uint64_t>(worker::ForwardFlops(layer)))});
  }
  return table.ToString();
}

// "1,056 (4.1 KiB)".
std::string CountText(uint64_t parameters) {
  return absl::StrCat(FormatCount(parameters), " (", FormatBytes(parameters * sizeof(float)), ")");
}

std::string MoreMemory(const worker::ModelPlan& model) {
  const bool has_lists = std::any_of(model.features.begin(), model.features.end(),
                                     [](const worker::TensorSpec& each) { return each.ragged; });
  if (!has_lists) return "";
  return absl::StrCat(", more where lists have more than ", worker::kLikelyRaggedIds, " ids");
}

std::string CostsText(const JobShape& shape) {
  const ParameterCounts counts = CountParameters(shape.model);
  return absl::StrCat(
      "parameters         ", CountText(counts.all()),         //
      "\n  trainable        ", CountText(counts.trainable),   //
      "\n  frozen           ", CountText(counts.frozen),      //
      "\n  statistics       ", CountText(counts.statistics),  //
      "\nFLOPs, forwards    ", FormatCount(static_cast<uint64_t>(ForwardFlops(shape.model))),
      " for an example\npushed by a step   ", FormatBytes(BytesPushed(shape)),
      "\nmemory of a worker ", FormatBytes(static_cast<uint64_t>(shape.worker_bytes)),
      " beside its data", MoreMemory(shape.model), "\n");
}

std::string SummaryText(const JobShape& shape) {
  if (!shape.custom.empty()) {
    return absl::StrCat("model              ", shape.custom,
                        ", which only the workers that bring it know\n", SizesText(shape));
  }
  return absl::StrCat(LayersText(shape.model), "\n", CostsText(shape), SizesText(shape));
}

SummaryJson LayerJson(const worker::ModelPlan& model, const worker::LayerPlan& layer) {
  SummaryJson json = {
      {"name", layer.spec.name()},
      {"kind", KindOf(layer.spec)},
      {"inputs", std::vector<std::string>(layer.spec.inputs().begin(), layer.spec.inputs().end())},
      {"output", layer.output},
      {"parameters", Parameters(model, layer)},
      {"trainable", layer.trainable},
      {"flops", worker::ForwardFlops(layer)}};
  if (!layer.spec.variables_of().empty()) json["variables_of"] = layer.spec.variables_of();
  return json;
}

// The fields that `millrace validate --json` has as well have the same names.
SummaryJson ModelJson(const JobShape& shape) {
  if (!shape.custom.empty()) return {{"custom", shape.custom}};
  SummaryJson layers = SummaryJson::array();
  for (const worker::LayerPlan& layer : shape.model.layers) {
    layers.push_back(LayerJson(shape.model, layer));
  }
  const ParameterCounts counts = CountParameters(shape.model);
  return {{"layers", layers},
          {"parameters", counts.all()},
          {"trainable_parameters", counts.trainable},
          {"frozen_parameters", counts.frozen},
          {"statistics", counts.statistics},
          {"flops", ForwardFlops(shape.model)},
          {"bytes_pushed", BytesPushed(shape)},
          {"worker_bytes", shape.worker_bytes}};
}

SummaryJson SummaryAsJson(const JobShape& shape) {
  SummaryJson json = ModelJson(shape);
  json["train_examples"] = shape.train_examples;
  json["evaluate_examples"] = shape.evaluate_examples;
  json["steps"] = shape.steps;
  return json;
}

}  // namespace

absl::StatusOr<ExitCode> RunSummary(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const JobSpec spec, LoadJob(context.flags, ReadingFor(context)));
  if (spec.data().directory().empty()) {
    return UsageError(
        "data.directory: empty; shapes follow from the data: name their folder with --data=DIR");
  }
  MILLRACE_RETURN_IF_ERROR(CheckJobSpec(spec));
  MILLRACE_ASSIGN_OR_RETURN(const JobShape shape, ShapeOf(spec));
  *context.console.out << (context.flags.json ? JsonLine(SummaryAsJson(shape)) : SummaryText(shape))
                       << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
