#include "client/commands/list.h"

#include <vector>

#include "client/commands/job_text.h"
#include "common/status_macros.h"

namespace millrace::client {

absl::StatusOr<ExitCode> RunList(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<JobStatus> jobs, client->List());
  if (context.flags.json) {
    for (const JobStatus& job : jobs) *context.console.out << JobJson(job);
  } else {
    *context.console.out << JobTable(jobs, absl::LocalTimeZone(), absl::Now());
  }
  *context.console.out << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
