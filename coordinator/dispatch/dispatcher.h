// Hands out the steps of all running jobs to all workers.
#ifndef MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_H_
#define MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/dispatch/job_view.h"
#include "coordinator/dispatch/step_pace.h"
#include "coordinator/dispatch/step_tracker.h"
#include "coordinator/dispatch/worker_pace.h"
#include "coordinator/membership/outbox.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// A worker as the dispatcher sees it.
struct WorkerCapacity {
  uint64_t worker = 0;
  uint32_t slots = 1;
  std::string name = {};  // For messages.
};

// Whenever a slot or a step becomes free, workers with free slots get leases at once, on the thread
// that brought the news: jobs in turn, and of each job the emptiest worker that is ready for it.
// One that gave a step of the job back with a fault comes after the others, and after more faults
// it pauses. One that evaluates gets nothing while others can train. Workers that are slow get
// fewer steps, and the last ones of a version go rather to others. One that is so slow that the
// others would only wait for it gets one step once in a while: it may be slow no longer. Where
// there is nothing else to hand out, a step that is late goes to a second worker as well; in a
// synchronous job with backups, up to so many steps go to idle workers at once. Messages to a
// worker are queued in order (the route of a job before leases of it), which is why that happens
// under the lock; queuing does not block. Thread-safe.
class Dispatcher {
 public:
  // So many leases may come back with OK, without a step done between, before the next is a fault:
  // a worker that evaluates, or has another job's long step, gives back those that wait.
  static constexpr int kFreeReturns = 16;

  struct Options {
    // Of a job of which no step was seen yet; then leases follow the pace of the steps, up and
    // down.
    absl::Duration first_lease = absl::Minutes(1);
    Clock* clock = Clock::Real();
  };

  struct Progress {
    uint64_t applied = 0;    // Steps that every shard has.
    uint64_t watermark = 0;  // All steps before it are done.
    bool at_barrier = false;
    absl::Duration late_after = {};  // A step that is out for longer is late.
    // Since when all steps before the barrier are out, so that no further one is; infinitely late
    // where that is not so, or the barrier is the job's end.
    absl::Time held_since = absl::InfiniteFuture();
    bool leases_are_used_up = false;  // Another generation is to begin: see StepTracker.
  };

  // `outbox` is not owned.
  Dispatcher(Outbox* outbox, const Options& options);

  // These are the workers now. Leases of others are free; new ones learn the routes of all jobs.
  void SetWorkers(const std::vector<WorkerCapacity>& workers) ABSL_LOCKS_EXCLUDED(mutex_);

  // A worker gets nothing more; what it has it keeps.
  void SetDraining(uint64_t worker) ABSL_LOCKS_EXCLUDED(mutex_);

  // Hands out steps of a job from here on, in the generation of `route`, in which exactly the steps
  // of `done` are done. Older leases are void; all workers are sent the route. Workers that were
  // ready for the job still are.
  // REQUIRES: the generation grows from call to call of a job.
  void Start(const StepRules& rules, const SetRoute& route, const AppliedSet& done,
             uint64_t barrier) ABSL_LOCKS_EXCLUDED(mutex_);

  // Hands out no more until the next Start: a shard's server is away. Leases that are out stay
  // valid.
  void Pause(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets a job, and tells the workers to. No error if it is not there.
  void Remove(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // A worker can run a job from now on, or cannot: then it gets nothing of it, its leases of it are
  // free, and it evaluates nothing of it (HasEvaluation). Returns whether it says why, or remarks
  // something, that it had not said.
  bool SetPrepared(uint64_t worker, const JobPrepared& prepared) ABSL_LOCKS_EXCLUDED(mutex_);

  // Where every worker has refused the job: why, as "worker-0: data.train: no such file";
  // Printable. Otherwise empty.
  std::string WhyNobodyCan(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // See StepTracker. REQUIRES: the job was started.
  void SetBarrier(const std::string& job_id, uint64_t barrier) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sets the barrier before the first step that was not handed out, in synchronous mode at the
  // beginning of a version, `at_least` and `at_most`; returns it. REQUIRES: as SetBarrier; at_least
  // <= at_most.
  uint64_t SetBarrierHere(const std::string& job_id, uint64_t at_least, uint64_t at_most)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a worker has a lease, expired or not: then giving it back may end the job.
  bool HasLease(uint64_t worker, const std::string& job_id, uint64_t lease_id)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a worker has the step of a result by the lease that it names, expired or not, and has
  // not reported it: then what it says of the step may end the job.
  bool HasStep(uint64_t worker, const StepResult& result) ABSL_LOCKS_EXCLUDED(mutex_);

  struct DoneResult {
    bool first = false;  // The step was not done before.
    uint64_t generation = 0;
    Progress progress;
  };
  // See StepTracker::Done; a lease that another worker has is ignored. All leases of the job that
  // the worker has are renewed, and for a while those of other jobs, which may wait for their
  // turns. Nothing for a job that is not there.
  absl::optional<DoneResult> Done(uint64_t worker, const StepResult& result)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A worker gives a lease back; ignored where it has not got it. A fault: any code but OK; and OK
  // from a worker that is not draining, once it has given back more than kFreeReturns leases with
  // OK without a step done. After a fault others come first; after more it gets nothing of the job
  // for a moment, longer each time until it has done a step. Returns its faults in a row.
  int GiveBack(uint64_t worker, const LeaseReturned& returned) ABSL_LOCKS_EXCLUDED(mutex_);

  struct TickResult {
    absl::Time next;      // Call it again then, at the latest.
    std::string trouble;  // For people, where a lease has expired.
    // Which workers are very slow, and by how much; of each one once in a while.
    std::vector<std::string> slow;
  };
  // Takes back expired leases, ends pauses, and sees which steps are late.
  TickResult Tick(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing for a job that was not started.
  absl::optional<Progress> GetProgress(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps that are done; none for a job that was not started.
  AppliedSet DoneSteps(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Stall {
    std::string whom;  // "worker-1, which has step 17,", to be put into "waits for ... for 34 s".
    absl::Time since;  // InfinitePast: not known.
    bool is_sure = false;  // Nobody knows it better: it is told before what workers do.
  };
  // For whom a job waits that does not get on. Nothing where nobody keeps it waiting.
  absl::optional<Stall> FindStall(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // What there is to tell of a job.
  JobView View(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends an evaluation to one of the workers that are ready for the job, in turn; nothing where
  // there is none. One that was asked for it before gets it again only if all of them were; those
  // that do not answer evaluations, then those that are late with a step or give steps back, and
  // then those that are slow come after the others. While others can train, workers that were asked
  // get no leases until EndEvaluation.
  absl::optional<uint64_t> SendEvaluate(const Evaluate& evaluate) ABSL_LOCKS_EXCLUDED(mutex_);
  // A worker has answered an evaluation, of whatever job, or was given up in one. Those that are
  // new count as answering.
  void SetAnswersEvaluations(uint64_t worker, bool answers) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndEvaluation(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one worker, which has failed; others that were asked may have a result yet.
  void TakeEvaluationBack(uint64_t worker, const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether this evaluation is under way, and this worker was asked for it.
  bool HasEvaluation(uint64_t worker, const std::string& job_id, uint64_t evaluation_id)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Worker {
    WorkerCapacity capacity;
    bool draining = false;
    bool answers_evaluations = true;
    absl::Time last_done = absl::InfinitePast();  // When it last reported a step of any job.
  };
  // A worker in one job.
  struct Standing {
    bool ready = false;
    std::string refusal;  // Why it cannot run the job. Empty: it can, or has not said.
    std::string remark;   // That it made when it could.
    int faults = 0;       // In a row, without a step done.
    int returns = 0;      // The same, of leases that it gave back with OK.
    absl::Time not_before = absl::InfinitePast();
    absl::Time last_done = absl::InfinitePast();  // When it last reported a step of this job.
    StepPace pace;
    std::string last_fault;  // What it said of the last one of `faults`.
    WorkerPace own_pace;     // As the worker measures it.
    double slowness = 0;     // See SlownessOf; of a while ago.
    absl::Time told_slow = absl::InfinitePast();
    uint64_t steps_done = 0;
    double recent_steps = 0;  // In units of JobDispatch::step_weight: later ones weigh more.
  };
  struct JobDispatch {
    explicit JobDispatch(const StepRules& rules) : tracker(rules) {}
    StepTracker tracker;
    // Of all workers: from one step of the job to the worker's next one, whatever it does between.
    StepPace pace;
    StepPace cost;  // The same, but from the worker's step before, of whatever job.
    CoordinatorMessage route;
    bool paused = false;
    absl::Time held_since = absl::InfiniteFuture();  // See Progress.
    std::map<uint64_t, Standing> standings;          // By worker.
    std::map<uint64_t, absl::Time> evaluating;       // The workers that were asked, and when.
    uint64_t evaluation_id = 0;                      // What they evaluate.
    double step_weight = 1;                          // Of the last step, in Standing::recent_steps.
    size_t steps_unranked = 0;                       // Since Standing::slowness was computed.
    bool has_slow = false;                           // Some worker is slow.
  };
  using Jobs = std::map<std::string, JobDispatch>;
  using SlotsByWorker = std::map<uint64_t, uint32_t>;

  bool IsFault(const StepTracker& tracker, uint64_t worker, const LeaseReturned& returned,
               int returns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsReady(const JobDispatch& job, uint64_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsEvaluating(uint64_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SomeoneElseTrains(const JobDispatch& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeasesAhead(const JobDispatch& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of all workers that are ready for the job, counting so many more of each.
  uint64_t ReadySlots(const JobDispatch& job, uint32_t more = 0) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SlotsByWorker FreeSlots() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::optional<uint64_t> BestWorker(const JobDispatch& job, const SlotsByWorker& free) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration DurationAlone(const JobDispatch& job, uint64_t worker) const;
  absl::Duration DurationFor(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StepTracker::Heard HeardOf(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t LeaseSize(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double BusyUntil(const JobDispatch& job, uint64_t worker, uint32_t free_slots) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasTrouble(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GetsOnWithItsSteps(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::optional<uint64_t> BestWorkerNotHeld(const JobDispatch& job, SlotsByWorker free) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WouldHoldUpOthers(const JobDispatch& job, uint64_t worker, uint32_t free_slots) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void RankWorkers(JobDispatch& job);
  void TellSlowWorkers(JobDispatch& job, std::vector<std::string>& told)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time LateAt(const JobDispatch& job, const StepTracker::Pending& out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeaseNext(JobDispatch& job, SlotsByWorker& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeaseBackup(JobDispatch& job, SlotsByWorker& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeaseLateAgain(JobDispatch& job, SlotsByWorker& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LeaseAgain(JobDispatch& job, const StepTracker::Pending& out, const SlotsByWorker& others,
                  uint64_t max_steps, SlotsByWorker& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendLease(const JobDispatch& job, uint64_t worker, const StepTracker::Lease& taken,
                 absl::Duration duration);
  using Hand = bool (Dispatcher::*)(JobDispatch& job, SlotsByWorker& free);
  bool HandOutOne(Hand hand, SlotsByWorker& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MeasureStep(JobDispatch& job, uint64_t worker, const StepResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void CountStep(JobDispatch& job, Standing& standing);
  std::vector<LeaseView> LeasesOf(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WorkerView ViewOf(const JobDispatch& job, uint64_t worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NameOf(uint64_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToAll(const CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Progress ProgressOf(const JobDispatch& job);

  Outbox* const outbox_;
  const Options options_;

  Mutex mutex_;  // Before the outbox's locks.
  std::map<uint64_t, Worker> workers_ ABSL_GUARDED_BY(mutex_);
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);
  std::string served_ ABSL_GUARDED_BY(mutex_);      // The job that got a lease last.
  uint64_t evaluated_ ABSL_GUARDED_BY(mutex_) = 0;  // The worker that evaluated last.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_DISPATCHER_H_
