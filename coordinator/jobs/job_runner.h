// Runs one job from submission to its end, on a thread of its own.
#ifndef MILLRACE_COORDINATOR_JOBS_JOB_RUNNER_H_
#define MILLRACE_COORDINATOR_JOBS_JOB_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/jobs/evaluator.h"
#include "coordinator/jobs/job.h"
#include "coordinator/jobs/planner.h"
#include "coordinator/jobs/runner_inbox.h"
#include "coordinator/jobs/shard_group.h"
#include "coordinator/jobs/training_stats.h"
#include "coordinator/membership/member_registry.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// What runners share; see CoordinatorOptions. None of the pointers is owned.
struct RunnerEnvironment {
  MemberRegistry* registry = nullptr;
  Dispatcher* dispatcher = nullptr;
  Planner* planner = nullptr;
  int min_ps = 1;
  absl::Duration member_timeout = absl::Minutes(10);
  absl::Duration plan_timeout = absl::Seconds(60);
  Clock* clock = Clock::Real();
  // Elements that jobs have placed on each ps server's directory, for the balance.
  std::function<uint64_t(const std::string& directory_id)> elements_on;
  // Called last, on the runner's thread, when a job has ended (not when it was stopped). Must not
  // block.
  std::function<void()> on_ended;
};

// Thread-safe.
class JobRunner {
 public:
  // Starts at once, wherever the job's record says that it is.
  JobRunner(std::shared_ptr<Job> job, const RunnerEnvironment& environment);
  // Stops, and waits for the thread.
  ~JobRunner();

  // Ends the job as CANCELLED, soon.
  void Cancel();
  // Ends the thread, soon, and leaves the job as it is: it can be taken up again.
  void Stop();

  // The job has ended, and the thread has nothing more to do: the destructor does not block.
  bool finished() const { return finished_; }

  // From the registry's observer; these do not block.
  void OnMembersChanged() { inbox_.Wake(); }
  void OnStepResult(const WorkerMember& worker, const StepResult& result);
  void OnLeaseReturned(const WorkerMember& worker, const LeaseReturned& returned);
  void OnJobPrepared(const WorkerMember& worker, const JobPrepared& prepared);
  void OnEvaluationResult(const EvaluationResult& result) { inbox_.Add(result); }

 private:
  enum class TrainingEnd { kFinished, kDetached };

  void Run();
  absl::Status RunToEnd();
  bool Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(shards_mutex_);
  void ResumeCalls() ABSL_LOCKS_EXCLUDED(shards_mutex_);
  void Fence();
  bool End(JobState state, const std::string& message) ABSL_LOCKS_EXCLUDED(shards_mutex_);

  // Each blocks until it is done, and returns what the run must end with. Attach: false where the
  // job must be placed again.
  absl::Status Plan();
  absl::Status Place();
  absl::StatusOr<bool> Attach();
  absl::StatusOr<TrainingEnd> Train();

  absl::Status OpenShards() ABSL_LOCKS_EXCLUDED(shards_mutex_);
  absl::StatusOr<absl::optional<std::vector<ShardStatus>>> Reach(uint64_t generation);
  absl::Status Displace();
  absl::Status StartDispatch(uint64_t generation, const std::vector<ShardStatus>& shards);
  absl::StatusOr<bool> AtBarrier(const Dispatcher::Progress& progress);
  absl::Status HandleEvaluations();
  absl::Status CheckWorkers(const Dispatcher::Progress& progress);
  void CheckStall(const Dispatcher::Progress& progress, const std::vector<WorkerMember>& workers);
  void TellTrouble(const std::string& trouble);
  void TellNotices();
  void PublishProgress(bool at_once);
  absl::Status NoteWaiting(const std::string& whom);
  absl::Status Wait(const std::string& whom, absl::Duration pause);
  void Interrupt(const absl::Status& status) ABSL_LOCKS_EXCLUDED(shards_mutex_);

  const std::shared_ptr<Job> job_;
  const RunnerEnvironment environment_;
  Clock* const clock_;
  RunnerInbox inbox_;
  TrainingStats stats_;
  std::atomic<bool> finished_{false};

  // Only used by the runner's thread, but that `shards_` may be cancelled by others.
  uint64_t generation_ = 0;
  uint64_t barrier_ = 0;
  absl::Time progress_due_ = absl::InfinitePast();
  absl::Time trouble_due_ = absl::InfinitePast();  // No notice of trouble before.
  uint64_t watermark_ = 0;
  absl::Time moved_at_;   // When the watermark moved, or somebody was there to move it.
  bool stalled_ = false;  // What the job waits for is set by CheckStall.
  std::vector<std::string> lost_planners_;

  Mutex shards_mutex_;  // Guards the pointer's setting. Before the inbox's and the group's.
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(shards_mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(shards_mutex_) = false;
  std::unique_ptr<ShardGroup> shards_;
  std::unique_ptr<Evaluator> evaluator_;

  std::thread thread_;  // Last: it uses the others.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_JOB_RUNNER_H_
