#include "client/commands/evacuate.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

std::string NameOf(const Flags& flags, const EvacuatePsResponse& response) {
  return PrintableName(response.name().empty() ? flags.ps_server : response.name());
}

// "2 shards of job a-1 (its shards are not at one version), 1 shard of job b-2".
std::string Remaining(const EvacuatePsResponse& response) {
  std::vector<std::string> jobs;
  for (const RemainingShards& job : response.jobs()) {
    jobs.push_back(
        absl::StrCat(FormatCount(job.shards()), job.shards() == 1 ? " shard" : " shards",
                     " of job ", PrintableName(job.job_id()),
                     job.why().empty() ? "" : absl::StrCat(" (", OneLine(job.why()), ")")));
  }
  return absl::StrJoin(jobs, ", ");
}

// What people lose who take the server away although nothing runs there.
std::string EndedJobs(const EvacuatePsResponse& response) {
  const uint64_t ended = response.ended_jobs();
  if (ended == 0) return "";
  return absl::StrCat("; it has the variables of ", FormatCount(ended),
                      ended == 1 ? " job that has" : " jobs that have",
                      " ended: what was neither exported nor is in a checkpoint goes with it");
}

std::string Outcome(const Flags& flags, const EvacuatePsResponse& response) {
  const std::string name = NameOf(flags, response);
  if (flags.undo) {
    if (!response.was_evacuated()) return absl::StrCat(name, " was not evacuated: it gets shards");
    return absl::StrCat(name, " gets shards again; `millrace rebalance JOB_ID` moves some of a ",
                        "running job there");
  }
  return absl::StrCat("no job that runs has shards on ", name, ", and none gets any there",
                      response.name().empty() ? "" : ": it can be stopped", EndedJobs(response));
}

// Of one who does not wait for it any more.
std::string StillEvacuatedNote(const std::string& name) {
  return absl::StrCat("the coordinator may have ", name,
                      " evacuated all the same; `millrace evacuate --undo ", name, "` ends that");
}

nlohmann::ordered_json AsJson(const EvacuatePsResponse& response, bool evacuated) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const RemainingShards& job : response.jobs()) {
    jobs.push_back({{"job_id", job.job_id()},
                    {"shards", job.shards()},
                    {"elements", job.elements()},
                    {"why", job.why()}});
  }
  return {{"name", response.name()},
          {"directory_id", response.directory_id()},
          {"evacuated", evacuated},
          {"jobs", jobs},
          {"ended_jobs", response.ended_jobs()}};
}

}  // namespace

absl::StatusOr<ExitCode> RunEvacuate(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const auto client, Connect(context));
  Interrupt::Action stop(context.interrupt, [&client] { client->Interrupt(); });
  const auto tell = [&](const EvacuatePsResponse& response) {
    if (response.jobs().empty()) return;
    *context.console.err << NameOf(flags, response) << " has " << Remaining(response) << std::endl;
  };
  const auto answer = flags.undo ? client->EvacuatePs(flags.ps_server, /*undo=*/true)
                                 : client->AwaitEvacuated(flags.ps_server, flags.timeout, tell);
  if (absl::IsCancelled(answer.status()) && !flags.undo) {
    *context.console.err << StillEvacuatedNote(PrintableName(flags.ps_server)) << std::endl;
  }
  MILLRACE_ASSIGN_OR_RETURN(const EvacuatePsResponse response, answer);
  if (!flags.undo && !response.jobs().empty()) {
    return absl::DeadlineExceededError(absl::StrCat(
        NameOf(flags, response), " still has ", Remaining(response), " after ",
        absl::FormatDuration(flags.timeout),
        "; it stays evacuated, and shards leave when they can, until `millrace evacuate --undo ",
        NameOf(flags, response), "`; `millrace why JOB_ID` says what a job waits for"));
  }
  if (flags.json) {
    *context.console.out << JsonLine(AsJson(response, !flags.undo)) << std::flush;
  } else {
    *context.console.out << Outcome(flags, response) << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
