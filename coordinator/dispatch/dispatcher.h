// Hands out the steps of all running jobs to all workers.
#ifndef MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_H_
#define MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/dispatch/step_tracker.h"
#include "coordinator/membership/outbox.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// A worker as the dispatcher sees it.
struct WorkerCapacity {
  uint64_t worker = 0;
  uint32_t slots = 1;
};

// Whenever a slot or a step becomes free, workers with free slots get leases at once, on the thread
// that brought the news: the emptiest worker first, jobs in turn. Messages to a worker are queued
// in order (the route of a job before leases of it), which is why that happens under the lock;
// queuing does not block. Thread-safe.
class Dispatcher {
 public:
  struct Options {
    absl::Duration lease_duration = absl::Minutes(1);
    Clock* clock = Clock::Real();
  };

  struct Progress {
    uint64_t applied = 0;    // Steps that every shard has.
    uint64_t watermark = 0;  // All steps before it are done.
    bool at_barrier = false;
  };

  // `outbox` is not owned.
  Dispatcher(Outbox* outbox, const Options& options);

  // These are the workers now. Leases of others are free; new ones learn the routes of all jobs.
  void SetWorkers(const std::vector<WorkerCapacity>& workers) ABSL_LOCKS_EXCLUDED(mutex_);

  // Hands out steps of a job from here on, in the generation of `route`, in which exactly the steps
  // of `done` are done. Older leases are void; all workers are sent the route.
  // REQUIRES: the generation grows from call to call of a job.
  void Start(const StepRules& rules, const SetRoute& route, const AppliedSet& done,
             uint64_t barrier) ABSL_LOCKS_EXCLUDED(mutex_);

  // Hands out no more until the next Start: a shard's server is away. Leases that are out stay
  // valid.
  void Pause(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets a job, and tells the workers to. No error if it is not there.
  void Remove(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // See StepTracker. REQUIRES: the job was started.
  void SetBarrier(const std::string& job_id, uint64_t barrier) ABSL_LOCKS_EXCLUDED(mutex_);

  struct DoneResult {
    bool first = false;  // The step was not done before.
    Progress progress;
  };
  // See StepTracker::Done. Nothing for a job that is not there.
  absl::optional<DoneResult> Done(const StepResult& result) ABSL_LOCKS_EXCLUDED(mutex_);

  // A worker gives a lease back. After a `fault` the job pauses for a moment, longer each time
  // until a step is done. Returns the faults in a row.
  int GiveBack(const LeaseReturned& returned, bool fault) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes back expired leases and ends pauses. Returns when to call it again at the latest.
  absl::Time Tick(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // REQUIRES: the job was started.
  Progress GetProgress(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends an evaluation to one of the workers, in turn; nothing where there is none.
  absl::optional<uint64_t> SendEvaluate(const Evaluate& evaluate) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct JobDispatch {
    explicit JobDispatch(const StepRules& rules) : tracker(rules) {}
    StepTracker tracker;
    CoordinatorMessage route;
    bool paused = false;
    int faults = 0;  // In a row, without a step done.
    absl::Time not_before = absl::InfinitePast();
  };
  using Jobs = std::map<std::string, JobDispatch>;

  uint32_t FreeSlots(uint64_t worker, uint32_t slots) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::optional<uint64_t> EmptiestWorker() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeaseTo(uint64_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeaseFrom(Jobs::value_type& job, uint64_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToAll(const CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Progress ProgressOf(const StepTracker& tracker);

  Outbox* const outbox_;
  const Options options_;

  Mutex mutex_;                                                   // Before the outbox's locks.
  std::map<uint64_t, uint32_t> workers_ ABSL_GUARDED_BY(mutex_);  // Slots by worker.
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);
  std::string served_ ABSL_GUARDED_BY(mutex_);      // The job that got a lease last.
  uint64_t evaluated_ ABSL_GUARDED_BY(mutex_) = 0;  // The worker that evaluated last.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_H_
