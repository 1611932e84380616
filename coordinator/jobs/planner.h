// Asks workers what a job's model and data are like.
#ifndef MILLRACE_COORDINATOR_JOBS_PLANNER_H_
#define MILLRACE_COORDINATOR_JOBS_PLANNER_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/membership/member_registry.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Puts a worker's answer into a job's record, with what follows from it. INVALID_ARGUMENT: the spec
// asks for what such variables do not allow; INTERNAL: the answer makes no sense. `record` is then
// unchanged.
absl::Status SetPlan(const JobPlan& plan, JobRecord& record);

// Thread-safe.
class Planner {
 public:
  // `registry` is not owned.
  Planner(MemberRegistry* registry, Clock* clock) : registry_(registry), clock_(clock) {}

  // Blocks until a worker has answered; asks another one when a worker leaves or cannot answer now.
  // INVALID_ARGUMENT: the model or the data is wrong. UNAVAILABLE: no worker is there, or Shutdown.
  // DEADLINE_EXCEEDED: no worker answered within `timeout`. CANCELLED: `cancelled` returned true,
  // which is asked now and after each Wake.
  absl::StatusOr<JobPlan> Plan(const JobSpec& spec, absl::Duration timeout,
                               const std::function<bool()>& cancelled) ABSL_LOCKS_EXCLUDED(mutex_);

  // From the registry's observer.
  void OnPlanResult(const WorkerMember& worker, const PlanResult& result)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMembersChanged() { Wake(); }

  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all waits, now and later.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Request {
    uint64_t worker = 0;
    absl::optional<PlanResult> result;
  };

  absl::optional<uint64_t> Ask(const JobSpec& spec, uint64_t after, uint64_t* request_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsThere(uint64_t worker) const;
  absl::StatusOr<PlanResult> Await(uint64_t request_id, uint64_t worker, absl::Time deadline,
                                   const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);

  MemberRegistry* const registry_;
  Clock* const clock_;

  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Request> requests_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t wakes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_PLANNER_H_
