#include "client/commands/submit.h"

#include <string>

#include "client/commands/follow.h"
#include "client/commands/job_shape.h"
#include "client/commands/load_job.h"
#include "client/progress/json_lines.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {

absl::StatusOr<ExitCode> RunSubmit(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const JobSpec spec, LoadJob(context.flags, ReadingFor(context)));
  MILLRACE_RETURN_IF_ERROR(CheckJobSpec(spec));
  MILLRACE_RETURN_IF_ERROR(CheckKnownShapes(spec));
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  const absl::StatusOr<std::string> submitted = client->Submit(spec);
  if (!submitted.ok() && context.interrupt->triggered()) {
    *context.console.err << MaybeTakenNote(context.flags.cluster) << std::endl;
    return ExitCode::kInterrupted;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string job_id, submitted);
  if (context.flags.json) {
    *context.console.out << JsonLine({{"job_id", job_id}}) << std::flush;
  } else {
    *context.console.out << job_id << std::endl;
    *context.console.err << "Follow it with `millrace watch " << job_id
                         << " --cluster=" << context.flags.cluster << "`." << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
