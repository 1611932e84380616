#include "coordinator/jobs/evacuation.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/job_state.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

struct Server {
  std::string name;
  std::string directory_id;
  bool is_there = false;
};

// The server that people mean: one that is there, or else one that has left, that has shards or is
// evacuated.
absl::StatusOr<Server> FindServer(const std::string& name, const MemberRegistry& registry,
                                  const std::vector<std::shared_ptr<Job>>& jobs,
                                  const EvacuatedServers& evacuated) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "ps_server: is empty; must be the name of a ps server, or the id of its data directory");
  }
  const bool may_still_come = registry.MayStillCome();  // Before it is looked who is there.
  const MembersView view = registry.View();
  for (const MemberNews& member : view.there) {
    if (member.is_worker || (member.name != name && member.directory_id != name)) continue;
    return Server{member.name, member.directory_id, /*is_there=*/true};
  }
  for (const Departure& gone : view.gone) {
    if (gone.is_worker || (gone.name != name && gone.directory_id != name)) continue;
    return Server{gone.name, gone.directory_id};
  }
  PlacedByDirectory placed;
  for (const auto& job : jobs) job->AddPlaced(&placed);
  std::map<std::string, std::string> known = evacuated.names();  // By directory.
  for (const auto& [directory_id, there] : placed) known[directory_id] = there.server;
  std::erase_if(
      known, [&name](const auto& server) { return server.first != name && server.second != name; });
  if (known.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ps_server: ", PrintableName(name), "; is none that is there, and the name of ",
        known.size(), " that have been; must be the id of a data directory, one of ",
        absl::StrJoin(known, ", ", [](std::string* out, const auto& server) {
          absl::StrAppend(out, Printable(server.first));
        })));
  }
  if (!known.empty()) return Server{known.begin()->second, known.begin()->first};
  const std::string nobody =
      absl::StrCat("ps_server: ", PrintableName(name),
                   "; no ps server of that name, or with a data directory of that id, ");
  if (may_still_come) {
    return absl::UnavailableError(absl::StrCat(
        nobody, "has come since the coordinator was started, and it may be on its way"));
  }
  return absl::NotFoundError(
      absl::StrCat(nobody, "is there or has left; `millrace members` lists those that are known"));
}

// Why shards of it are still there. Empty: they are about to leave.
std::string WhyItStays(const Job& job) {
  const std::string trouble = job.move_trouble();
  if (!trouble.empty()) return trouble;
  const auto waiting = job.waiting();
  if (!waiting) return "";
  if (waiting->is_turn) return absl::StrCat("it ", waiting->whom);
  return absl::StrCat("it waits for ", absl::StripSuffix(waiting->whom, ","));
}

// `arriving`: how many shards of it are on their way there.
void Add(const Job& job, const std::string& directory_id, uint64_t arriving,
         EvacuatePsResponse* response) {
  PlacedByDirectory placed;
  job.AddPlaced(&placed);
  const PlacedShards& there = placed[directory_id];
  if (there.shards + arriving == 0) return;
  if (HasEnded(job.state())) {
    response->set_ended_jobs(response->ended_jobs() + 1);
    return;
  }
  RemainingShards& remaining = *response->add_jobs();
  remaining.set_job_id(job.id());
  remaining.set_shards(there.shards + arriving);
  remaining.set_elements(there.elements);
  remaining.set_why(there.shards > 0 ? WhyItStays(job) : "on their way there; they leave then");
}

}  // namespace

absl::StatusOr<EvacuatePsResponse> EvacuatePs(const EvacuatePsRequest& request,
                                              const MemberRegistry& registry,
                                              EvacuatedServers* evacuated, JobTable* table) {
  MILLRACE_ASSIGN_OR_RETURN(const Server server,
                            FindServer(request.ps_server(), registry, table->Jobs(), *evacuated));
  const bool was_evacuated = evacuated->Contains(server.directory_id);
  if (was_evacuated == request.undo()) {
    MILLRACE_RETURN_IF_ERROR(request.undo() ? evacuated->Remove(server.directory_id)
                                            : evacuated->Add(server.directory_id, server.name));
    for (const auto& runner : table->Runners()) runner->OnMembersChanged();
  }
  EvacuatePsResponse response;
  response.set_name(server.is_there ? server.name : "");
  response.set_directory_id(server.directory_id);
  response.set_was_evacuated(was_evacuated);
  // In this order: what has arrived meanwhile is found where it is placed.
  std::map<std::string, uint64_t> arriving = evacuated->ArrivingAt(server.directory_id);
  for (const std::shared_ptr<Job>& job : table->Jobs()) {
    Add(*job, server.directory_id, arriving[job->id()], &response);
  }
  return response;
}

}  // namespace millrace::coordinator
