// A job that `train` is given and that has ended in an earlier run.
#ifndef MILLRACE_CLIENT_COMMANDS_ENDED_JOB_H_
#define MILLRACE_CLIENT_COMMANDS_ENDED_JOB_H_

#include <string>

#include "client/commands/command.h"
#include "client/commands/exit_code.h"
#include "client/progress/progress_view.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "protos/job.pb.h"

namespace millrace::client {

// Shows what the job came to, from `checkpoint`, that of its end in `directory`, and exports its
// variables where the flags ask for that: with --best those of the state that it kept, if it chose
// that as `asked` does. What goes wrong with the export is told, and is in the outcome.
ExitCode FinishEnded(const CommandContext& context, const KeepBest& asked,
                     const std::string& directory, Checkpoint* checkpoint, ProgressView* view);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_ENDED_JOB_H_
