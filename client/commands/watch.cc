#include "client/commands/watch.h"

#include "client/commands/follow.h"
#include "client/progress/make_view.h"
#include "common/status_macros.h"

namespace millrace::client {

absl::StatusOr<ExitCode> RunWatch(const CommandContext& context) {
  const Flags& flags = context.flags;
  const auto view = MakeProgressView(context.console, flags.json);
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context, view.get()));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  const auto outcome = FollowJob(client.get(), flags.job_id, view.get());
  if (!outcome.ok() && context.interrupt->triggered()) {
    view->Note(DetachedNote(flags.job_id, flags.cluster));
    return ExitCode::kInterrupted;
  }
  MILLRACE_RETURN_IF_ERROR(outcome.status());
  view->Finish(*outcome);
  return ExitCodeOf(*outcome);
}

}  // namespace millrace::client
