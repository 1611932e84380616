#include "client/commands/validate.h"

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
#include "worker/model/flops.h"
#include "worker/model/shape.h"

namespace millrace::client {
namespace {

using Json = nlohmann::ordered_json;

std::string TakenText(const worker::LayerPlan& layer) {
  return absl::StrJoin(layer.spec.inputs(), ", ");
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
  const ParameterCounts counts = CountParameters(shape.model);
  return {{"valid", true},
          {"layers", layers},
          {"parameters", counts.all()},
          {"frozen_parameters", counts.frozen},
          {"flops", ForwardFlops(shape.model)},
          {"bytes_pushed", BytesPushed(shape)},
          {"worker_bytes", shape.worker_bytes},
          {"train_examples", shape.train_examples},
          {"evaluate_examples", shape.evaluate_examples},
          {"steps", shape.steps}};
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
  const ParameterCounts counts = CountParameters(shape.model);
  const std::string frozen =
      counts.frozen == 0 ? "" : absl::StrCat(", ", FormatCount(counts.frozen), " of them frozen");
  return absl::StrCat(
      table.ToString(), "\nparameters         ", FormatCount(counts.all()), " (",
      FormatCount(counts.all() * sizeof(float)), " bytes)", frozen, "\nFLOPs, forwards    ",
      FormatCount(static_cast<uint64_t>(ForwardFlops(shape.model))),
      " for an example\npushed by a step   ", FormatBytes(BytesPushed(shape)),
      "\nmemory of a worker ", FormatBytes(static_cast<uint64_t>(shape.worker_bytes)),
      " beside its data\n", SizesText(shape));
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
    MILLRACE_RETURN_IF_ERROR(CheckKnownShapes(spec));
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
