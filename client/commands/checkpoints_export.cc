#include "client/commands/checkpoints_export.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/export.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "client/tensor_files/tensor_writer.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

// One array of one variable.
struct ExportedArray {
  size_t variable = 0;
  int array = 0;
};

// Each variable, followed by its slots.
std::vector<ExportedArray> ArraysToExport(const Checkpoint& checkpoint, bool slots) {
  std::vector<ExportedArray> exported;
  for (size_t variable = 0; variable < checkpoint.variables().size(); ++variable) {
    for (int array = 0; array < (slots ? checkpoint.arrays() : 1); ++array) {
      exported.push_back({variable, array});
    }
  }
  return exported;
}

}  // namespace

absl::Status ExportCheckpoint(Checkpoint* checkpoint, bool slots, const std::string& path,
                              const Interrupt& interrupt) {
  const std::vector<ExportedArray> exported = ArraysToExport(*checkpoint, slots);
  std::vector<TensorInfo> tensors;
  for (const ExportedArray& each : exported) {
    tensors.push_back({ArrayName(*checkpoint, each.variable, each.array),
                       checkpoint->variables()[each.variable].shape});
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto writer, CreateTensorWriter(path, std::move(tensors)));
  for (const ExportedArray& each : exported) {
    MILLRACE_RETURN_IF_ERROR(
        ForEachPart(interrupt, checkpoint, each.variable, each.array,
                    [&writer](absl::Span<const float> part) { return writer->Append(part); }));
  }
  return writer->Commit();
}

absl::StatusOr<ExitCode> RunCheckpointsExport(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointName name, ParsePath(flags.path));
  MILLRACE_RETURN_IF_ERROR(CheckExportFile(flags.export_file));
  const auto checkpoint = OpenCheckpoint(name);
  if (!checkpoint.ok()) return OfferOneBefore(name, checkpoint.status());
  const absl::Status exported =
      ExportCheckpoint(checkpoint->get(), flags.slots, flags.export_file, *context.interrupt);
  if (!exported.ok()) return OfferOneBefore(name, exported);
  const CheckpointManifest& manifest = (*checkpoint)->manifest();
  const std::string path = CheckpointPath(name.directory, manifest.number());
  if (flags.json) {
    const nlohmann::ordered_json json = {{"path", path},
                                         {"job_id", manifest.job_id()},
                                         {"step", manifest.step()},
                                         {"export", flags.export_file}};
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << (flags.slots ? "variables and slots of " : "variables of ") << path
                         << " after " << FormatCount(manifest.step())
                         << " steps: " << flags.export_file << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
