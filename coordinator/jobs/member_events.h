// What members say, and that they come and go, for those whom it concerns.
#ifndef MILLRACE_COORDINATOR_JOBS_MEMBER_EVENTS_H_
#define MILLRACE_COORDINATOR_JOBS_MEMBER_EVENTS_H_

#include "common/mutex.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/run/runner_environment.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// The registry's observer. Thread-safe; does not block.
class MemberEvents final : public MemberObserver {
 public:
  // Of `environment`: the registry, the dispatcher and the planner. `table` is not owned.
  MemberEvents(const RunnerEnvironment& environment, JobTable* table)
      : environment_(environment), table_(table) {}

  // Warns of shards of jobs that are not in the journal; has those dropped that their jobs have not
  // placed there.
  void OnPsJoined(const RegisterPs& ps) override;
  void OnMembersChanged() override ABSL_LOCKS_EXCLUDED(members_mutex_);
  void OnWorkerMessage(const WorkerMember& worker, const MemberMessage& message) override;
  // Has jobs with shards there write checkpoints; then it may leave.
  void OnPsDraining(const PsMember& ps) override;

 private:
  const RunnerEnvironment environment_;
  JobTable* const table_;

  // Held while the workers are read from the registry and given to the dispatcher, so that an older
  // list never replaces a newer one. Before all other locks.
  Mutex members_mutex_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_MEMBER_EVENTS_H_
