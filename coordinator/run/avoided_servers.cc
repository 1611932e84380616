#include "coordinator/run/avoided_servers.h"

#include "common/status_macros.h"
#include "coordinator/shards/can_be_called.h"

namespace millrace::coordinator {

absl::StatusOr<bool> AvoidSilentServers(const RunnerEnvironment& environment,
                                        const std::string& job_id, RunnerInbox* inbox,
                                        AvoidedServers* avoided) {
  bool one_answers = false;
  for (const PsMember& member : environment.OpenPsServers()) {
    const RegisterPs& ps = member.registration;
    if (avoided->Contains(ps.directory_id())) continue;
    const bool answers = CanBeCalled(ps.address(), ps.directory_id(), job_id);
    MILLRACE_RETURN_IF_ERROR(inbox->interrupt());
    if (!answers) avoided->Avoid(ps.directory_id(), AvoidedServers::kFull);
    one_answers |= answers;
  }
  return one_answers;
}

std::vector<TargetServer> TargetServers(const RunnerEnvironment& environment,
                                        const AvoidedServers& avoided) {
  std::vector<TargetServer> servers;
  for (const PsMember& member : environment.OpenPsServers()) {
    const RegisterPs& ps = member.registration;
    if (avoided.Contains(ps.directory_id())) continue;
    servers.push_back({ps.directory_id(), ps.name(), ps.address(),
                       environment.elements_on ? environment.elements_on(ps.directory_id()) : 0});
  }
  return servers;
}

}  // namespace millrace::coordinator
