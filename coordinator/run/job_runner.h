// Runs one job from submission to its end, on a thread of its own.
#ifndef MILLRACE_COORDINATOR_RUN_JOB_RUNNER_H_
#define MILLRACE_COORDINATOR_RUN_JOB_RUNNER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "coordinator/checkpoint/checkpoint_requests.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/job/job.h"
#include "coordinator/run/attacher.h"
#include "coordinator/run/evaluator.h"
#include "coordinator/run/preparer.h"
#include "coordinator/run/report_audit.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/shard_group.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// Thread-safe.
class JobRunner {
 public:
  // `hold`, on the job's directory of checkpoints (nullptr: it has none), is taken first, and
  // released when the job's end is in the journal, before anybody hears of it.
  JobRunner(std::shared_ptr<Job> job, const RunnerEnvironment& environment,
            std::shared_ptr<CheckpointHold> hold);
  // Stops, and waits for the thread.
  ~JobRunner();

  // Begins, wherever the job's record says that it is, and with what was said to it before. Does
  // not block. RESOURCE_EXHAUSTED: the system has no thread left; try again. REQUIRES: not begun.
  absl::Status Start();

  // Ends the job as CANCELLED, soon.
  void Cancel();
  // Ends the thread, soon, and leaves the job as it is: it can be taken up again.
  void Stop();

  // The job has ended, and the thread has nothing more to do: the destructor does not block.
  bool finished() const { return finished_; }

  // Has a checkpoint written, after the one that is under way. Answered at once where the job has
  // none, or goes no further here; otherwise when it is there, or was given up.
  void RequestCheckpoint(CheckpointRequest request);
  // See Jobs.RebalanceJob.
  void Rebalance() {
    attacher_.relocator().AskForRebalance();
    inbox_.Wake();
  }
  // Whether steps are handed out, so that a checkpoint can be written now.
  bool trains() const { return trains_; }

  // From the registry's observer; these do not block. What the audit has excluded is not heard, and
  // nobody is about steps and evaluations of others.
  void OnMembersChanged() { inbox_.Wake(); }
  void OnMemoryFreed() { inbox_.Wake(); }
  void OnStepResult(const WorkerMember& worker, const StepResult& result);
  void OnLeaseReturned(const WorkerMember& worker, const LeaseReturned& returned);
  void OnJobPrepared(const WorkerMember& worker, const JobPrepared& prepared);
  void OnEvaluationResult(const WorkerMember& worker, const EvaluationResult& result);

 private:
  bool IsExcluded(const WorkerMember& worker) const {
    return audit_.IsExcluded(worker.registration.name());
  }
  void Blame(const WorkerMember& worker, const std::string& what);
  void Run();
  void HoldDirectory();
  absl::Status RunToEnd();
  absl::Status Open() ABSL_LOCKS_EXCLUDED(shards_mutex_);
  absl::StatusOr<Attached> AttachSomewhere();
  absl::Status TrainToEnd();
  absl::Status BeginRunning();
  absl::Status PauseBefore(const std::string& cause, absl::Time attached_at);

  void OpenCheckpoints();
  void DetachCheckpoints(const std::string& cause);
  void CloseCheckpoints(const absl::Status& status);
  bool Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(shards_mutex_);
  void ResumeCalls() ABSL_LOCKS_EXCLUDED(shards_mutex_);
  void Fence() ABSL_LOCKS_EXCLUDED(shards_mutex_);
  bool End(JobState state, const std::string& message, std::vector<std::string> warnings = {})
      ABSL_LOCKS_EXCLUDED(shards_mutex_);
  bool WriteAtTheEnd(const std::function<absl::Status()>& write) ABSL_LOCKS_EXCLUDED(shards_mutex_);
  void Interrupt(const absl::Status& status) ABSL_LOCKS_EXCLUDED(shards_mutex_);

  const std::shared_ptr<Job> job_;
  const RunnerEnvironment environment_;
  const std::shared_ptr<CheckpointHold> hold_;
  Clock* const clock_;
  RunnerInbox inbox_;
  Reporter reporter_;
  ReportAudit audit_;
  Preparer preparer_;
  Attacher attacher_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> trains_{false};
  // As planned. 0: not known yet.
  std::atomic<uint64_t> train_examples_{0};
  std::atomic<uint64_t> evaluate_examples_{0};
  CheckpointRequests checkpoint_requests_;

  // Only used by the runner's thread, but that `shards_` may be cancelled by others.
  absl::Duration pause_;  // Before the shards are attached again.
  Mutex shards_mutex_;    // Guards the pointer's setting. Before the inbox's and the group's.
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(shards_mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(shards_mutex_) = false;
  std::unique_ptr<ShardGroup> shards_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Checkpointer> checkpointer_;  // nullptr: the job has no checkpoints.

  std::thread thread_;  // Last: it uses the others. None before Start.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_JOB_RUNNER_H_
