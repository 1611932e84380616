#include "client/commands/checkpoint.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/job_text.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

std::string CheckpointAnswer(const Flags& flags, const CheckpointJobResponse& response) {
  const std::string known =
      response.has_checkpoint()
          ? absl::StrCat(DescribeCheckpoint(response.checkpoint(), absl::Now()), ", ",
                         FormatBytes(response.checkpoint().bytes()), ", in ",
                         response.checkpoint().directory())
          : "";
  if (flags.wait) return absl::StrCat("checkpoint ", known);
  return absl::StrCat(
      "a checkpoint of job ", flags.job_id, " is asked for; ",
      known.empty() ? "there is none yet" : absl::StrCat("the newest that is there: ", known));
}

absl::Status WithAdvice(const Flags& flags, const absl::Status& status) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(
      absl::StrCat(std::string(status.message()), "; `millrace why ", flags.job_id,
                   "` says whom it waits for. It is still asked for"));
}

}  // namespace

absl::StatusOr<ExitCode> RunCheckpoint(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  const auto answer = client->Checkpoint(flags.job_id, flags.wait, flags.timeout);
  if (!answer.ok()) return WithAdvice(flags, answer.status());
  const CheckpointJobResponse& response = *answer;
  if (flags.json) {
    nlohmann::ordered_json json = {{"job_id", flags.job_id}, {"checkpoint", nullptr}};
    if (response.has_checkpoint()) json["checkpoint"] = CheckpointJson(response.checkpoint());
    *context.console.out << JsonLine(json) << std::flush;
  } else {
    *context.console.out << CheckpointAnswer(flags, response) << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
