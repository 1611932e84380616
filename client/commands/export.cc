#include "client/commands/export.h"

#include "absl/strings/str_cat.h"
#include "client/commands/best.h"
#include "client/exporter.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "client/tensor_files/tensor_writer.h"
#include "common/job_state.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

absl::StatusOr<JobStatus> StatusOf(const CommandContext& context, JobsClient* client) {
  Interrupt::Action stop(context.interrupt, [client] { client->Interrupt(); });
  return client->Get(context.flags.job_id);
}

absl::Status CheckStandsStill(const Flags& flags, const JobStatus& status) {
  if (HasEnded(status.state()) || flags.while_running) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", flags.job_id, " is ", JobState_Name(status.state()),
      " and its variables still change; wait for its end with `millrace watch`, or end it with "
      "`millrace cancel`. For one state of it have a checkpoint written (`millrace checkpoint "
      "--wait`) and export that; --while_running takes each shard as it is just then"));
}

// A checkpoint stands still, also while its job goes on.
absl::StatusOr<ExitCode> RunExportBest(const CommandContext& context, const JobStatus& status) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const BestEvaluation best, BestOf(status));
  MILLRACE_RETURN_IF_ERROR(ExportBest(best, flags.export_file, *context.interrupt));
  if (flags.json) {
    const nlohmann::ordered_json json = {{"job_id", flags.job_id},
                                         {"state", JobState_Name(status.state())},
                                         {"step", best.step()},
                                         {"best", BestJson(best)},
                                         {"export", flags.export_file}};
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << "variables of job " << flags.job_id << " with the best "
                         << DescribeBest(best) << ": " << flags.export_file << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace

absl::Status CheckExportFile(const std::string& path) {
  const absl::Status status = CheckTensorPath(path);
  return absl::IsInvalidArgument(status) ? UsageError(status.message()) : status;
}

absl::StatusOr<ExitCode> RunExport(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_RETURN_IF_ERROR(CheckExportFile(flags.export_file));
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  MILLRACE_ASSIGN_OR_RETURN(const JobStatus status, StatusOf(context, client.get()));
  if (flags.best) return RunExportBest(context, status);
  MILLRACE_RETURN_IF_ERROR(CheckStandsStill(flags, status));
  ExportOptions options;
  options.interrupt = context.interrupt;
  options.on_wait = [&context](const std::string& message) {
    *context.console.err << "millrace: " << message << std::endl;
  };
  MILLRACE_RETURN_IF_ERROR(ExportVariables(client.get(), flags.job_id, flags.export_file, options));
  if (flags.json) {
    const nlohmann::ordered_json json = {{"job_id", flags.job_id},
                                         {"state", JobState_Name(status.state())},
                                         {"step", status.step()},
                                         {"export", flags.export_file}};
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << "variables of job " << flags.job_id << " after "
                         << FormatCount(status.step()) << " steps: " << flags.export_file
                         << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
