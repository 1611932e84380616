#include "client/commands/cancel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/commands/job_text.h"
#include "client/progress/format.h"
#include "common/clock.h"
#include "common/job_state.h"
#include "common/status_macros.h"

namespace millrace::client {

namespace {

absl::Status StillUnderWay(const JobStatus& status, absl::Duration waited) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the cancellation of job ", status.job_id(), " is still under way after ",
      absl::FormatDuration(waited), " (", DescribeState(status),
      "); the job takes no new steps; look again with `millrace status ", status.job_id(), "`"));
}

// Of the coordinator's answer. Without any, nothing would be cancelled.
absl::Duration Patience(absl::Duration timeout) {
  return std::clamp(timeout, absl::Seconds(1), JobsClientOptions().timeout);
}

}  // namespace

absl::StatusOr<ExitCode> RunCancel(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context, nullptr, Patience(flags.timeout)));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  const absl::Time start = Clock::Real()->Now();
  MILLRACE_ASSIGN_OR_RETURN(JobStatus status, client->Cancel(flags.job_id));
  if (!HasEnded(status.state())) {
    *context.console.err << "cancellation of job " << flags.job_id << " is under way ("
                         << DescribeState(status) << ")" << std::endl;
    MILLRACE_ASSIGN_OR_RETURN(
        status, client->AwaitEnd(flags.job_id, start + flags.timeout - Clock::Real()->Now()));
  }
  if (!HasEnded(status.state())) return StillUnderWay(status, flags.timeout);
  if (flags.json) {
    *context.console.out << JobJson(status) << std::flush;
  } else if (status.state() != CANCELLED) {
    *context.console.out << "job " << status.job_id()
                         << " had ended already: " << JobState_Name(status.state()) << std::endl;
  } else {
    *context.console.out << "job " << status.job_id() << " is cancelled at step "
                         << FormatCount(status.step()) << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
