// One job on a worker: its route, its leases, and the thread that computes them.
#ifndef MILLRACE_WORKER_TRAINING_STEP_LOOP_H_
#define MILLRACE_WORKER_TRAINING_STEP_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/variant.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/start_thread.h"
#include "protos/cluster.pb.h"
#include "worker/model/memory_budget.h"
#include "worker/parameters/parameter_client.h"
#include "worker/training/activity_board.h"
#include "worker/training/job_computation.h"
#include "worker/training/prepared_job.h"
#include "worker/training/pull_under_way.h"
#include "worker/training/push_finisher.h"
#include "worker/training/readiness.h"
#include "worker/training/seams.h"
#include "worker/training/work_queue.h"

namespace millrace::worker {

struct StepLoopOptions {
  std::string worker_name;  // For the log.
  Clock* clock = Clock::Real();
  absl::Duration step_timeout = absl::Minutes(10);  // Of one pull or push.
  absl::Duration call_timeout = absl::Seconds(10);  // See ParameterClientOptions.
  ParameterClientFactory make_client;
  JobPreparer* preparer = nullptr;          // Must outlive the loop.
  std::function<void(MemberMessage)> send;  // Thread-safe; does not block.
  ThreadStarter start_thread = StartThread;
};

// A route is answered with JobPrepared as soon as the data are open, the model is made and both are
// compared with the job's plan; while that cannot be done it is tried again and again, and work
// that comes all the same is returned with UNAVAILABLE. Work is done in the order of WorkQueue, on
// the route of the newest generation. Each job has a thread of its own: in synchronous mode a step
// may wait for steps of other workers, and these must not be waiting for steps of another job
// behind it. For the same reason a step that waits for its version makes way for a lower one of its
// job that comes later (from a worker that was lost): it may be the one that it waits for. The next
// step is pulled and computed while a few pushes are on their way; what becomes of them is told in
// order. Where the job pulls ahead, a step's pull begins within the backward pass of the one
// before, once that step has been leased: its values are newer than its lease, as the staleness
// bound asks. A lease that was not begun in its time, since other work took long, is given back.
// Thread-safe; no method but Join and the destructor blocks.
class StepLoop {
 public:
  // Starts the job's thread, which opens the data at once. RESOURCE_EXHAUSTED: the system has none
  // left.
  static absl::StatusOr<std::shared_ptr<StepLoop>> Start(const StepLoopOptions& options,
                                                         const SetRoute& route);

  // Stops if that was not done, and joins.
  ~StepLoop();

  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  // Whether `route` is of the same job, going on. Otherwise it is of another one whose id is used
  // again, for which this loop is of no use.
  bool Continues(const SetRoute& route) const ABSL_LOCKS_EXCLUDED(mutex_);

  // A newer generation ends the work of the older one, without a word. REQUIRES: Continues(route).
  void Reroute(const SetRoute& route) ABSL_LOCKS_EXCLUDED(mutex_);

  // Work of another generation than the route's is dropped.
  void Add(const Lease& lease) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const Evaluate& evaluate) ABSL_LOCKS_EXCLUDED(mutex_);

  // What it does now, for people.
  std::vector<Activity> Activities() const { return board_.Read(); }

  // Drops all work, without a word, and tells nothing more until there is a route again.
  void DropWork() ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back the leases that are not begun at once. The steps under way are finished, the rest of
  // their leases is given back, and the thread ends. Data that are being opened are read no
  // further.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the thread's end, which Stop brings about; a push that is still waiting for a ps
  // server after `patience` is called off.
  void Join(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Clients that were given up. The thread destroys them, since that may take a moment.
  using Retired = std::vector<std::shared_ptr<ParameterClient>>;
  // What the thread does next. A route: get ready for it.
  using Task = absl::variant<Retired, SetRoute, StepWork, Evaluate>;

  StepLoop(const StepLoopOptions& options, const SetRoute& route);

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until there is something to do, or it is time to stop (none).
  absl::optional<Task> WaitForTask() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::optional<Task> NextTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Where the job's data were found to have changed: prepares it anew, and tells the coordinator.
  void ReopenChangedData() ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes leases out of the queue and gives them back.
  void ReturnIdleLeases() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnExpiredLeases() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnAllLeases() ABSL_LOCKS_EXCLUDED(mutex_);
  void Return(const std::vector<StepWork>& leases);

  // Starts the threads that are missing, opens the data and makes the model unless that was done,
  // and compares them with the plan. Blocks.
  absl::Status Prepare(const JobPlan& plan);
  // UNAVAILABLE: it is not done.
  absl::Status CheckPrepared() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Do(const Retired& /*retired*/) {}  // They end with the task.
  void Do(const SetRoute& route) ABSL_LOCKS_EXCLUDED(mutex_);
  void Do(const StepWork& work) ABSL_LOCKS_EXCLUDED(mutex_);
  void Do(const Evaluate& work) ABSL_LOCKS_EXCLUDED(mutex_);
  // A step that is computed, with what its push needs until it is acknowledged.
  struct PushedStep {
    std::shared_ptr<ParameterClient> client;
    Servers servers;
    ComputedStep step;
    absl::Time computed_at;
  };
  absl::StatusOr<PushedStep> Compute(const StepWork& work) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<EvaluationResult> Compute(const Evaluate& work) ABSL_LOCKS_EXCLUDED(mutex_);
  // How long parts of PullFor took.
  struct PullTimes {
    absl::Duration read;    // The batch, where what is pulled depends on it.
    absl::Duration copied;  // The values; see StartedPull::CopyTime.
  };
  absl::StatusOr<PullTimes> PullFor(const StepWork& work, const Servers& servers)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ComputedStep> TrainOn(const StepWork& work, const Servers& servers);
  // The step that is to be computed after `work`, on the same servers; none: that is not known.
  absl::optional<uint64_t> StepAfter(const StepWork& work) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status AwaitPushOf(const StepWork& work, PushedStep& pushed);

  // In the finisher's thread: waits for the push, if it came to that, and tells of the step.
  void Finish(const StepWork& work, absl::StatusOr<PushedStep> pushed) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of a step that was not computed: whether it comes again, because its pull was called off.
  // Otherwise no further step of its lease is begun.
  bool PutBack(const StepWork& work) ABSL_LOCKS_EXCLUDED(mutex_);

  // A client for the route of `generation`. CANCELLED: that is no longer the route.
  absl::StatusOr<std::shared_ptr<ParameterClient>> ClientFor(uint64_t generation)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<ParameterClient>> MakeClient(const Routing& routing) const;

  // Where others may call off `pull` (null: there is none to end): from Begin to End. CANCELLED:
  // the work is no longer wanted, or a lower step has come meanwhile.
  absl::Status BeginPull(const StepWork& work, ParameterClient::StartedPull* pull)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BeginPull(const Evaluate& work, ParameterClient::StartedPull* pull)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EndPull() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all pulls and pushes of a client that was given up (or null), and leaves it to the thread.
  // Does not block.
  void Retire(std::shared_ptr<ParameterClient> client) ABSL_LOCKS_EXCLUDED(mutex_);
  bool LowerStepThan(uint64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Takes the work out of the queue, unless it was called off. Returns whether there is something
  // to tell: nobody wants to hear of work that is void.
  bool Settle(const StepWork& work, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Settle(const Evaluate& work, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);

  template <typename AnyWork>
  Servers ServersFor(const AnyWork& work, ParameterClient* client, std::string what)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const StepLoopOptions options_;
  const std::string job_id_;
  const JobSpec spec_;
  ActivityBoard board_;
  std::stop_source opening_;  // Of the data. Thread-safe.

  // The thread alone uses these.
  std::unique_ptr<JobComputation> computation_;  // Null until the job is prepared.
  absl::Time computed_at_;                       // When the work before was done but for its push.

  mutable Mutex mutex_;  // Guards what follows. Not held while anything blocks or is called back.
  CondVar changed_;
  SetRoute route_ ABSL_GUARDED_BY(mutex_);
  Readiness readiness_ ABSL_GUARDED_BY(mutex_);
  // For route_'s generation; null until a step needs it.
  std::shared_ptr<ParameterClient> client_ ABSL_GUARDED_BY(mutex_);
  Retired retired_ ABSL_GUARDED_BY(mutex_);
  WorkQueue queue_ ABSL_GUARDED_BY(mutex_);
  PullUnderWay pull_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  // Its steps use the rest. The thread alone uses it; null until the job is being prepared.
  std::unique_ptr<PushFinisher> finisher_;
  std::thread thread_;  // Last: it starts when the rest is ready.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_STEP_LOOP_H_
