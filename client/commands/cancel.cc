#include "client/commands/cancel.h"

#include "client/commands/job_text.h"
#include "client/progress/format.h"
#include "common/status_macros.h"

namespace millrace::client {

absl::StatusOr<ExitCode> RunCancel(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const JobStatus status, client->Cancel(context.flags.job_id));
  if (context.flags.json) {
    *context.console.out << JobJson(status) << std::flush;
  } else if (status.state() == SUCCEEDED || status.state() == FAILED) {
    *context.console.out << "job " << status.job_id()
                         << " had ended already: " << JobState_Name(status.state()) << std::endl;
  } else {
    *context.console.out << "job " << status.job_id() << " is cancelled at step "
                         << FormatCount(status.step()) << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
