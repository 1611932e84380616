#include "client/commands/rebalance.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

std::string MovesText(const std::string& job_id, const RebalanceJobResponse& response) {
  if (response.moves().empty()) {
    return "nothing moves: the ps servers hold as much as one another, as far as whole shards "
           "allow\n";
  }
  std::string text;
  for (const PlannedMove& move : response.moves()) {
    absl::StrAppend(&text, "shard ", move.shard(), " moves from ", PrintableName(move.from()),
                    " to ", PrintableName(move.to()), " (", FormatCount(move.elements()),
                    " elements)\n");
  }
  absl::StrAppend(&text, "`millrace watch ", PrintableName(job_id),
                  "` tells when that is done, or why it cannot be\n");
  return text;
}

std::string MovesJson(const std::string& job_id, const RebalanceJobResponse& response) {
  nlohmann::ordered_json moves = nlohmann::ordered_json::array();
  for (const PlannedMove& move : response.moves()) {
    moves.push_back({{"shard", move.shard()},
                     {"elements", move.elements()},
                     {"from", move.from()},
                     {"to", move.to()}});
  }
  return JsonLine({{"job_id", job_id}, {"moves", moves}});
}

}  // namespace

absl::StatusOr<ExitCode> RunRebalance(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const RebalanceJobResponse response, client->Rebalance(flags.job_id));
  *context.console.out << (flags.json ? MovesJson(flags.job_id, response)
                                      : MovesText(flags.job_id, response))
                       << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
