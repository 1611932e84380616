#include "client/commands/status.h"

#include "client/commands/job_text.h"
#include "common/status_macros.h"

namespace millrace::client {

absl::StatusOr<ExitCode> RunStatus(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const JobStatus status, client->Get(context.flags.job_id));
  *context.console.out << (context.flags.json ? JobJson(status)
                                              : JobText(status, absl::LocalTimeZone(), absl::Now()))
                       << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
