// Asks workers what a job's model and data are like.
#ifndef MILLRACE_COORDINATOR_RUN_PLANNER_H_
#define MILLRACE_COORDINATOR_RUN_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/placement/placement.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Whether the shards of such variables can be as the job's optimizer, and the checkpoint that it
// goes on from, need them. INVALID_ARGUMENT.
absl::Status CheckDivision(const JobRecord& record, const Variables& variables);

// Puts a worker's answer into a job's record, with what follows from it. INVALID_ARGUMENT: the spec
// asks for what such variables do not allow, or they are not those of the checkpoint that the job
// goes on from; `record` is then unchanged. REQUIRES: CheckPlan(plan).
absl::Status SetPlan(const JobPlan& plan, JobRecord& record);

// Thread-safe.
class Planner {
 public:
  // A job that costs this many workers is not given to another one at once.
  static constexpr size_t kMostLost = 2;

  // `registry` is not owned.
  Planner(MemberRegistry* registry, Clock* clock) : registry_(registry), clock_(clock) {}

  // Blocks until a worker has answered. Asks another one when a worker leaves, cannot answer now,
  // answers what makes no sense (see CheckPlan), or takes 20 s (then 40 s, 80 s, and so on), and
  // takes the first answer. Workers that owe answers for other specs, of calls that have ended as
  // well, are asked last.
  // `lost` collects the workers that went while they were at it and had not said that they leave,
  // from call to call for one job; as soon as there are kMostLost planning ends. INVALID_ARGUMENT:
  // the model or the data is wrong. FAILED_PRECONDITION: the job seems to kill its workers, and
  // `lost` has kMostLost; or a worker says so. UNAVAILABLE: no worker is there, or Shutdown.
  // RESOURCE_EXHAUSTED: it is too large for each worker. DEADLINE_EXCEEDED: no worker answered
  // within `timeout`. CANCELLED: `cancelled` returned true, which is asked now and often.
  absl::StatusOr<JobPlan> Plan(const JobSpec& spec, absl::Duration timeout,
                               const std::function<bool()>& cancelled,
                               std::vector<std::string>* lost) ABSL_LOCKS_EXCLUDED(mutex_);

  // From the registry's observer. A worker that says that it leaves is not lost.
  void OnLeaving(const WorkerMember& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnPlanResult(const WorkerMember& worker, const PlanResult& result)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMembersChanged() { Wake(); }

  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all waits, now and later.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Poll;  // One call of Plan.

  // Nothing: it has not come.
  absl::optional<PlanResult> TakeResult(uint64_t request_id) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsOfALeaver(uint64_t request_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // By worker: how many requests for plans of other specs it has not answered. Forgets those of
  // workers that are gone.
  std::map<uint64_t, int> CountOwed(const std::vector<WorkerMember>& workers, size_t spec_hash)
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t Send(uint64_t worker, const JobSpec& spec, size_t spec_hash) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody waits for the answer any more.
  void GiveUp(uint64_t request_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns what to give to the next call, which returns when something happened since this one.
  absl::StatusOr<uint64_t> Wait(uint64_t seen, absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Request {
    uint64_t worker = 0;
    size_t spec_hash = 0;
    bool leaves = false;    // The worker has said so.
    bool given_up = false;  // Kept until the worker answers, or is gone.
    absl::optional<PlanResult> result;
  };

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

#endif  // MILLRACE_COORDINATOR_RUN_PLANNER_H_
