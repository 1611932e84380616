#include "client/commands/status.h"

#include "absl/types/optional.h"
#include "client/commands/devices_text.h"
#include "client/commands/job_text.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// Nothing: the job has no workers now, or the coordinator does not say.
absl::optional<JobExplanation> ExplanationOf(JobsClient* client, const JobStatus& status) {
  if (status.state() != RUNNING) return absl::nullopt;
  absl::StatusOr<JobExplanation> explanation = client->Explain(status.job_id());
  if (!explanation.ok()) return absl::nullopt;
  return *std::move(explanation);
}

}  // namespace

absl::StatusOr<ExitCode> RunStatus(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const JobStatus status, client->Get(context.flags.job_id));
  const absl::optional<JobExplanation> explanation = ExplanationOf(client.get(), status);
  std::ostream& out = *context.console.out;
  if (context.flags.json) {
    out << JobJson(status, explanation ? &*explanation : nullptr) << std::flush;
  } else {
    const std::string devices = explanation ? DevicesText(*explanation) : "";
    out << JobText(status, absl::LocalTimeZone(), absl::Now()) << (devices.empty() ? "" : "\n")
        << devices << std::flush;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
