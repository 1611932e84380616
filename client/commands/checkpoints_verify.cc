#include "client/commands/checkpoints_verify.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/commands/checkpoint_choice.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

absl::StatusOr<VerifyResult> Verify(
    const CommandContext& context, const std::string& directory, uint64_t number,
    const std::function<void(const CheckpointProblem&)>& on_problem) {
  const auto on_read = [&context](uint64_t) {
    return context.interrupt->triggered() ? absl::CancelledError("interrupted") : absl::OkStatus();
  };
  const auto result = VerifyCheckpoint(RealFileSystem(), directory, number, on_problem, on_read);
  if (absl::IsNotFound(result.status())) return NoSuchCheckpoint(directory, number);
  return result;
}

// The furthest one but `damaged` that has no problem. Reads it, and further ones.
absl::StatusOr<absl::optional<uint64_t>> FurthestWhole(const CommandContext& context,
                                                       const std::string& directory,
                                                       uint64_t damaged) {
  MILLRACE_ASSIGN_OR_RETURN(const auto listed,
                            CheckpointDirectory(RealFileSystem(), directory).List());
  for (const CheckpointDirectory::Listed& each : InOrderOfUse(listed)) {
    if (each.number == damaged || !each.manifest.ok()) continue;
    const absl::Status whole = CheckWhole(*context.interrupt, directory, each.number);
    if (absl::IsCancelled(whole)) return whole;
    if (whole.ok()) return absl::make_optional(each.number);
  }
  return absl::optional<uint64_t>();
}

void PrintProblem(const CommandContext& context, const CheckpointProblem& problem) {
  if (context.flags.json) {
    const nlohmann::ordered_json json = {{"path", problem.path},
                                         {"begin", problem.begin},
                                         {"end", problem.end},
                                         {"problem", problem.what}};
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << "damaged: " << Printable(problem.what) << std::endl;
  }
}

std::string VerdictText(const std::string& directory, uint64_t number, const VerifyResult& result,
                        const absl::optional<uint64_t>& whole) {
  const std::string path = CheckpointPath(directory, number);
  if (result.problems == 0) {
    return absl::StrCat(path, " is whole: all of its ", FormatBytes(result.bytes),
                        " are as written");
  }
  return absl::StrCat(
      path, " is damaged in ", FormatCount(result.problems),
      result.problems == 1 ? " place" : " places", " and will not be loaded. ",
      whole ? absl::StrCat("The furthest whole one is ", CheckpointFolder(*whole),
                           "; go on from it with --restore=", CheckpointPath(directory, *whole))
            : "No other one there is whole");
}

}  // namespace

absl::StatusOr<ExitCode> RunCheckpointsVerify(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(CheckpointName name, ParsePath(context.flags.path));
  if (name.number == 0) {
    const CheckpointDirectory directory(RealFileSystem(), name.directory);
    MILLRACE_ASSIGN_OR_RETURN(name.number, directory.Newest());
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const VerifyResult result,
      Verify(context, name.directory, name.number,
             [&context](const CheckpointProblem& problem) { PrintProblem(context, problem); }));
  absl::optional<uint64_t> whole;
  if (result.problems > 0) {
    MILLRACE_ASSIGN_OR_RETURN(whole, FurthestWhole(context, name.directory, name.number));
  }
  if (context.flags.json) {
    nlohmann::ordered_json json = {{"number", name.number},
                                   {"path", CheckpointPath(name.directory, name.number)},
                                   {"whole", result.problems == 0},
                                   {"bytes", result.bytes},
                                   {"problems", result.problems}};
    if (whole) json["furthest_whole"] = *whole;
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << VerdictText(name.directory, name.number, result, whole) << std::endl;
  }
  return result.problems == 0 ? ExitCode::kSucceeded : ExitCode::kFailed;
}

}  // namespace millrace::client
