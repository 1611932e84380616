#include "client/commands/convert.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/read_text_file.h"
#include "client/keras/keras_model.h"
#include "client/progress/json_lines.h"
#include "common/status_macros.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "protos/job.pb.h"

namespace millrace::client {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

std::string ToText(const ModelSpec& model) {
  JobSpec job;
  *job.mutable_model() = model;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(job, &text);
  return text;
}

}  // namespace

absl::StatusOr<ExitCode> RunConvert(const CommandContext& context) {
  const std::string& path = context.flags.path;
  MILLRACE_ASSIGN_OR_RETURN(const std::string json, ReadTextFile("Keras model", path, kMaxBytes));
  MILLRACE_ASSIGN_OR_RETURN(const KerasModel converted, ConvertKerasModel(json, path));
  const std::string text = ToText(converted.model);
  if (context.flags.json) {
    *context.console.out << JsonLine({{"model", text}, {"notes", converted.notes}});
    return ExitCode::kSucceeded;
  }
  *context.console.out << text;
  for (const std::string& note : converted.notes) *context.console.err << note << "\n";
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
