// What tests of jobs whose servers' disks are gone do.
#ifndef MILLRACE_COORDINATOR_REMAKE_FIXTURE_H_
#define MILLRACE_COORDINATOR_REMAKE_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "coordinator/testing/fake_checkpoint.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"

namespace millrace::coordinator {

// A checkpoint of the job itself, in its directory.
inline uint64_t WriteCheckpointOf(const std::string& job, const JobSpec& spec,
                                  const std::vector<AppliedSet>& applied) {
  return WriteFakeCheckpoint(
      spec.checkpoints().directory(),
      {.job_id = job, .spec = spec, .plan = PlainPlan(), .applied = applied});
}

inline JobSpec JobWithCheckpoints(uint64_t steps) {
  JobSpec spec = PlainJob(steps);
  spec.mutable_checkpoints()->set_directory(NewCheckpointDirectory());
  spec.mutable_checkpoints()->set_every_steps(1'000'000);
  return spec;
}

inline CoordinatorOptions WithGrace(absl::Duration restore_grace) {
  CoordinatorOptions options;
  options.restore_grace = restore_grace;
  return options;
}

inline CoordinatorOptions WithPatience(absl::Duration member_timeout) {
  CoordinatorOptions options;
  options.member_timeout = member_timeout;
  return options;
}

// A job on so many servers, whose only worker stands at a step until the gate is open.
struct StandingJob {
  StandingJob(int servers, uint64_t step, JobSpec job_spec = JobWithCheckpoints(60),
              const CoordinatorOptions& options = {})
      : cluster(servers, options), spec(std::move(job_spec)) {
    cluster.StartPs();
    cluster.AddWorker(WaitingAt(step, &gate));
    job = cluster.Submit(spec).value();
    gate.AwaitSomebody();
  }

  Gate gate;
  FakeCluster cluster;
  JobSpec spec;
  std::string job;
};

inline std::vector<Recovered> RemakesOf(FakeCluster& cluster, const std::string& job) {
  std::vector<Recovered> recoveries;
  const auto events = cluster.Watch(job);
  for (const JobEvent& event : *events) {
    if (event.has_recovered()) recoveries.push_back(event.recovered());
  }
  return recoveries;
}

// The server's disk is another one from now on, and it serves that.
inline void GiveNewDisk(FakeCluster& cluster, int ps) {
  cluster.ps(ps).Kill();
  cluster.ps(ps).ReplaceDisk();
  cluster.ps(ps).Start(cluster.address());
}

inline bool WasTold(FakeCluster& cluster, const std::string& job, const std::string& text) {
  const auto events = cluster.Watch(job);
  return std::any_of(events->begin(), events->end(), [&](const JobEvent& event) {
    return absl::StrContains(event.notice().message(), text);
  });
}

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_REMAKE_FIXTURE_H_
