#include "client/commands/convert.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/read_text_file.h"
#include "client/keras/keras_file.h"
#include "client/keras/keras_model.h"
#include "client/keras/keras_weights.h"
#include "client/progress/json_lines.h"
#include "client/tensor_files/tensor_writer.h"
#include "common/status_macros.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "protos/job.pb.h"

namespace millrace::client {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

std::string ToText(const KerasModel& converted) {
  JobSpec job;
  *job.mutable_model() = converted.model;
  if (converted.optimizer.has_value()) *job.mutable_optimizer() = *converted.optimizer;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(job, &text);
  return text;
}

// What is read here and there, and more than once: a pipe would be waited for without end.
absl::Status CheckIsNoPipe(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(path, ignored)) return absl::OkStatus();
  return UsageError(
      absl::StrCat("cannot read ", path, ": it is a pipe; must be a file, as Keras wrote it"));
}

// The model; its weights where they are to be written and it has them.
absl::StatusOr<KerasFile> ReadModelFile(const Flags& flags) {
  MILLRACE_RETURN_IF_ERROR(CheckIsNoPipe(flags.path));
  const bool with_weights = !flags.weights.empty() && flags.weights_file.empty();
  switch (KerasFormatOf(flags.path)) {
    case KerasFormat::kArchive:
      return ReadKerasArchive(flags.path, with_weights);
    case KerasFormat::kHdf5:
      return ReadKerasHdf5(flags.path);
    case KerasFormat::kJson:
      break;
  }
  KerasFile file;
  MILLRACE_ASSIGN_OR_RETURN(file.json, ReadTextFile("Keras model", flags.path, kMaxBytes));
  file.json_name = flags.path;
  return file;
}

absl::StatusOr<KerasFile> ReadFiles(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(KerasFile file, ReadModelFile(flags));
  if (!flags.weights_file.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckIsNoPipe(flags.weights_file));
    MILLRACE_ASSIGN_OR_RETURN(file.weights, Hdf5File::Open(flags.weights_file));
  }
  if (flags.weights.empty() || file.weights.has_value()) return file;
  return UsageError(absl::StrCat("--weights: ", flags.path,
                                 " has none; name the file that has them after it, as Keras's "
                                 "Model.save_weights wrote it"));
}

// Returns how many there are.
absl::StatusOr<size_t> ConvertWeights(const KerasFile& file, const KerasModel& converted,
                                      const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<KerasWeight> weights,
                            FindKerasWeights(*file.weights, converted.variables));
  MILLRACE_RETURN_IF_ERROR(WriteKerasWeights(*file.weights, weights, path));
  return weights.size();
}

// What `train` begins with is a safetensors file.
absl::Status CheckWeightsFlag(const Flags& flags) {
  if (flags.weights.empty()) return absl::OkStatus();
  const auto format = FormatOf(flags.weights);
  if (!format.ok() || *format != TensorFormat::kSafetensors) {
    return UsageError(
        absl::StrCat("--weights: ", flags.weights, "; must be called FILE.safetensors"));
  }
  return CheckTensorPath(flags.weights);
}

// Slots of the variables, beside the step and the learning rate, which files of models have that
// were never fitted.
bool HasOptimizerState(const Hdf5File& weights) {
  const bool scales_losses = weights.Has("optimizer/inner_optimizer");
  if (weights.Has(scales_losses ? "optimizer/inner_optimizer/vars/2" : "optimizer/vars/2")) {
    return true;
  }
  if (!weights.Has("optimizer_weights")) return false;
  const auto names = weights.Texts("optimizer_weights", "weight_names");
  return names.ok() && names->size() > 2;
}

bool HasLosses(const ModelSpec& model) {
  if (model.outputs().empty()) return model.loss() != LOSS_UNSPECIFIED;
  return std::all_of(model.outputs().begin(), model.outputs().end(),
                     [](const OutputSpec& output) { return output.loss() != LOSS_UNSPECIFIED; });
}

// What the job file lacks, for people: "data, batch_size and epochs".
std::string Missing(const KerasModel& converted) {
  std::vector<std::string> fields;
  if (!HasLosses(converted.model)) fields.push_back("loss");
  if (!converted.optimizer.has_value()) fields.push_back("optimizer");
  fields.insert(fields.end(), {"data", "batch_size"});
  return absl::StrCat(absl::StrJoin(fields, ", "), " and epochs");
}

}  // namespace

absl::StatusOr<ExitCode> RunConvert(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_RETURN_IF_ERROR(CheckWeightsFlag(flags));
  MILLRACE_ASSIGN_OR_RETURN(const KerasFile file, ReadFiles(flags));
  KerasModelOptions options;
  options.training = file.training;
  options.in_keras2_hdf5 = file.in_keras2_hdf5;
  options.values_given = !flags.weights.empty();
  MILLRACE_ASSIGN_OR_RETURN(KerasModel converted,
                            ConvertKerasModel(file.json, file.json_name, options));
  std::string next = "millrace train JOB.textproto --data=DIR";
  if (!flags.weights.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t count, ConvertWeights(file, converted, flags.weights));
    if (HasOptimizerState(*file.weights)) {
      converted.notes.push_back(
          "What the optimizer has kept, and its step, are left out: a job with these weights "
          "begins "
          "at step 0, as does its schedule of the learning rate.");
    }
    converted.notes.push_back(absl::StrCat("Wrote ", count, " variables to ", flags.weights, "."));
    absl::StrAppend(&next, " --init_from=", flags.weights);
  }
  const std::string text = ToText(converted);
  if (flags.json) {
    *context.console.out << JsonLine({{"model", text}, {"notes", converted.notes}, {"next", next}});
    return ExitCode::kSucceeded;
  }
  *context.console.out << text;
  for (const std::string& note : converted.notes) *context.console.err << note << "\n";
  *context.console.err << "Next, with " << Missing(converted) << " in the job file: " << next
                       << "\n";
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
