#include "coordinator/jobs/evacuation.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_state.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

struct Named {
  std::string name;  // Empty: it is not there.
  std::string directory_id;
};

// The server that people mean: one that is there, or else one that has left.
absl::StatusOr<Named> FindServer(const std::string& name, const MemberRegistry& registry,
                                 const EvacuatedServers& evacuated) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "ps_server: is empty; must be the name of a ps server, or the id of its data directory");
  }
  const MembersView view = registry.View();
  for (const MemberNews& member : view.there) {
    if (member.is_worker || (member.name != name && member.directory_id != name)) continue;
    return Named{member.name, member.directory_id};
  }
  for (const Departure& gone : view.gone) {
    if (gone.is_worker || (gone.name != name && gone.directory_id != name)) continue;
    return Named{"", gone.directory_id};
  }
  if (evacuated.Contains(name)) return Named{"", name};
  return absl::NotFoundError(absl::StrCat(
      "ps_server: ", PrintableName(name),
      "; no ps server of that name, or with a data directory of that id, is there or has left"));
}

void Add(const Job& job, const std::string& directory_id, EvacuatePsResponse* response) {
  PlacedByDirectory placed;
  job.AddPlaced(&placed);
  const auto there = placed.find(directory_id);
  if (there == placed.end() || there->second.shards == 0) return;
  if (HasEnded(job.state())) {
    response->set_ended_jobs(response->ended_jobs() + 1);
    return;
  }
  RemainingShards& remaining = *response->add_jobs();
  remaining.set_job_id(job.id());
  remaining.set_shards(there->second.shards);
  remaining.set_elements(there->second.elements);
  remaining.set_why(job.move_trouble());
}

}  // namespace

absl::StatusOr<EvacuatePsResponse> EvacuatePs(const EvacuatePsRequest& request,
                                              const MemberRegistry& registry,
                                              EvacuatedServers* evacuated, JobTable* table) {
  MILLRACE_ASSIGN_OR_RETURN(const Named server,
                            FindServer(request.ps_server(), registry, *evacuated));
  const bool wanted = !request.undo();
  if (evacuated->Contains(server.directory_id) != wanted) {
    MILLRACE_RETURN_IF_ERROR(evacuated->Set(server.directory_id, wanted));
    for (const auto& runner : table->Runners()) runner->OnMembersChanged();
  }
  EvacuatePsResponse response;
  response.set_name(server.name);
  response.set_directory_id(server.directory_id);
  for (const std::shared_ptr<Job>& job : table->Jobs()) {
    Add(*job, server.directory_id, &response);
  }
  return response;
}

}  // namespace millrace::coordinator
