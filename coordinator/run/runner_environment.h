// What the runners of all jobs share.
#ifndef MILLRACE_COORDINATOR_RUN_RUNNER_ENVIRONMENT_H_
#define MILLRACE_COORDINATOR_RUN_RUNNER_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/start_thread.h"
#include "common/storage/durable_file.h"
#include "coordinator/checkpoint/patient_call.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/placement/evacuated_servers.h"
#include "coordinator/run/memory_turn.h"
#include "coordinator/run/planner.h"

namespace millrace::coordinator {

// A shard that the directory of a ps server has, and where its job does not place it any more: the
// server was away when the job was placed elsewhere.
struct StrayShard {
  std::string job_id;
  uint32_t shard = 0;
  std::string directory_id;
};

// See CoordinatorOptions. None of the pointers is owned.
struct RunnerEnvironment {
  MemberRegistry* registry = nullptr;
  Dispatcher* dispatcher = nullptr;
  Planner* planner = nullptr;
  EvacuatedServers* evacuated = nullptr;  // Null: none are.
  int min_ps = 1;
  absl::Duration member_timeout = absl::Minutes(10);
  absl::Duration plan_timeout = absl::Minutes(10);
  absl::Duration restore_grace = absl::Minutes(2);
  Clock* clock = Clock::Real();
  FileSystemPtr file_system = RealFileSystem();  // Of checkpoints.
  // Who waits for reading them.
  std::shared_ptr<const PatientCaller> file_caller = std::make_shared<PatientCaller>();
  // Of all jobs.
  std::shared_ptr<MemoryTurn> memory_turn = std::make_shared<MemoryTurn>();
  // Elements that jobs have placed on each ps server's directory, for the balance.
  std::function<uint64_t(const std::string& directory_id)> elements_on;
  // Has shards dropped where their job does not place them any more. Must not block.
  std::function<void(const std::vector<StrayShard>& strays)> drop_strays;
  // Starts a runner's thread. RESOURCE_EXHAUSTED: the system has none left.
  ThreadStarter start_thread = StartThread;
  // Called last, on the runner's thread, when a job has ended (not when it was stopped). Must not
  // block.
  std::function<void()> on_ended;

  bool IsEvacuated(const std::string& directory_id) const {
    return evacuated != nullptr && evacuated->Contains(directory_id);
  }
  // See EvacuatedServers::Announce.
  std::unique_ptr<ArrivingShards> Announce(const std::string& job_id,
                                           std::vector<std::string> directory_ids) const {
    if (evacuated != nullptr) return evacuated->Announce(job_id, std::move(directory_ids));
    return std::make_unique<ArrivingShards>(nullptr, job_id, std::move(directory_ids));
  }
  // The ps servers that are there and may be given shards.
  std::vector<PsMember> OpenPsServers() const {
    std::vector<PsMember> servers = registry->PsServers();
    std::erase_if(servers, [this](const PsMember& server) {
      return IsEvacuated(server.registration.directory_id());
    });
    return servers;
  }
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_RUNNER_ENVIRONMENT_H_
