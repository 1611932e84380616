#include "client/commands/commands.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/commands/cancel.h"
#include "client/commands/checkpoint.h"
#include "client/commands/checkpoints_export.h"
#include "client/commands/checkpoints_ls.h"
#include "client/commands/checkpoints_rm.h"
#include "client/commands/checkpoints_show.h"
#include "client/commands/checkpoints_verify.h"
#include "client/commands/convert.h"
#include "client/commands/evacuate.h"
#include "client/commands/export.h"
#include "client/commands/list.h"
#include "client/commands/members.h"
#include "client/commands/rebalance.h"
#include "client/commands/status.h"
#include "client/commands/submit.h"
#include "client/commands/summary.h"
#include "client/commands/train.h"
#include "client/commands/validate.h"
#include "client/commands/watch.h"
#include "client/commands/why.h"

namespace millrace::client {
namespace {

constexpr std::pair<const char*, Command> kCommands[] = {
    {"train", RunTrain},
    {"convert", RunConvert},
    {"validate", RunValidate},
    {"summary", RunSummary},
    {"submit", RunSubmit},
    {"list", RunList},
    {"members", RunMembers},
    {"status", RunStatus},
    {"watch", RunWatch},
    {"why", RunWhy},
    {"cancel", RunCancel},
    {"evacuate", RunEvacuate},
    {"rebalance", RunRebalance},
    {"export", RunExport},
    {"checkpoint", RunCheckpoint},
    {"checkpoints ls", RunCheckpointsLs},
    {"checkpoints show", RunCheckpointsShow},
    {"checkpoints verify", RunCheckpointsVerify},
    {"checkpoints export", RunCheckpointsExport},
    {"checkpoints rm", RunCheckpointsRm},
};

absl::StatusOr<ExitCode> Dispatch(const CommandContext& context) {
  for (const auto& [name, command] : kCommands) {
    if (context.flags.command == name) return command(context);
  }
  return UsageError(absl::StrCat("no command '", context.flags.command, "'"));
}

}  // namespace

ExitCode RunCommand(const CommandContext& context) {
  const absl::StatusOr<ExitCode> result = Dispatch(context);
  if (result.ok()) return *result;
  if (context.interrupt->triggered() && absl::IsCancelled(result.status())) {
    return ExitCode::kInterrupted;
  }
  ReportError(context, result.status());
  return ExitCodeOf(result.status());
}

}  // namespace millrace::client
