#include "client/commands/why.h"

#include "client/commands/why_text.h"
#include "common/status_macros.h"

namespace millrace::client {

absl::StatusOr<ExitCode> RunWhy(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const JobExplanation explanation,
                            client->Explain(context.flags.job_id));
  *context.console.out << (context.flags.json ? WhyJson(explanation)
                                              : WhyText(explanation, absl::LocalTimeZone()))
                       << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
