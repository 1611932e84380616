// All jobs of a coordinator, and their runners.
#ifndef MILLRACE_COORDINATOR_JOBS_JOB_TABLE_H_
#define MILLRACE_COORDINATOR_JOBS_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "coordinator/checkpoint/checkpoint_requests.h"
#include "coordinator/job/job.h"
#include "coordinator/jobs/held_directories.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/jobs/late_call.h"
#include "coordinator/jobs/retention.h"
#include "coordinator/journal/journal.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/run/runner_environment.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Thread-safe.
class JobTable {
 public:
  // A job and its runner, which begins a little later where the system has no thread left.
  struct Running {
    std::shared_ptr<Job> job;
    std::shared_ptr<JobRunner> runner;
  };

  // `environment` lacks elements_on, drop_strays and on_ended, which the table adds. `journal` is
  // not owned.
  JobTable(const RunnerEnvironment& environment, const RetentionLimits& limits, Journal* journal,
           const QueueLimits& queue_limits = {});
  // Stops.
  ~JobTable();

  // Reads the journal. Once, before anything else.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes up the jobs that Load found unfinished, those that had started first. REQUIRES: no Cancel
  // before.
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps a place in the queue for a job that is being submitted, until Release. See JobQueue.
  absl::Status Reserve(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // A new job's. UNAVAILABLE: after Stop.
  absl::StatusOr<uint64_t> NextNumber() ABSL_LOCKS_EXCLUDED(mutex_);

  // Knows the job, which is in the journal, from now on; and it waits for its turn. Where that has
  // come it goes on with `hold`, which is then null. UNAVAILABLE: after Stop.
  absl::Status Add(std::shared_ptr<Job> job, std::shared_ptr<CheckpointHold>& hold)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // NOT_FOUND names the job.
  absl::StatusOr<std::shared_ptr<Job>> Find(const std::string& job_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The job that a request with this id made; null: there is none.
  std::shared_ptr<Job> FindRequest(const std::string& request_id) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The job with this directory of checkpoints, as NormalDirectory writes it, that has not ended;
  // null: there is none.
  std::shared_ptr<Job> FindUnended(const std::string& directory) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The newest first.
  std::vector<std::shared_ptr<Job>> Jobs() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Those that jobs have; null: the job is not known, waits for its turn, or has ended.
  std::shared_ptr<JobRunner> RunnerOf(const std::string& job_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::shared_ptr<JobRunner>> Runners() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of jobs that train, and have a directory for checkpoints.
  std::vector<Running> WithCheckpoints() const ABSL_LOCKS_EXCLUDED(mutex_);

  HeldDirectories& held_directories() { return held_directories_; }
  Retention& retention() { return retention_; }

  // See the service's ExplainJob. Does not block.
  JobExplanation Explain(Job& job) const;

  // See the service's ListMembers. Does not block.
  ListMembersResponse Members() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns at once; the job ends soon, if it has not ended yet.
  void Cancel(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  // See JobRunner::RequestCheckpoint. FAILED_PRECONDITION: the job has no directory for
  // checkpoints, has not begun (it waits for its turn), or has ended.
  absl::Status RequestCheckpoint(const Job& job, CheckpointRequest request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // See the service's RebalanceJob.
  absl::StatusOr<RebalanceJobResponse> Rebalance(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  // Has all jobs that train and have a directory write a checkpoint, and waits for that, `timeout`
  // at most.
  void WriteCheckpoints(const std::string& cause, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Stops the runners and waits for them. Jobs stay as they are in the journal.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::shared_ptr<Job> job;
    std::shared_ptr<JobRunner> runner;  // None while the job waits for its turn, or has ended.
    // On its directory of checkpoints. None: it has no such directory, waits for its turn, or has
    // ended.
    std::shared_ptr<CheckpointHold> hold;
  };

  Entry& AddLocked(std::shared_ptr<Job> job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Some runner has finished, or may have a thread now: whose turn is it?
  void RunNext() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunWhoseTurnItIs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartRunner(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that have ended and whose runners are gone; lets runners go that have finished.
  std::vector<std::shared_ptr<Job>> EndedJobs() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Forget(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t ElementsOn(const std::string& directory_id) const ABSL_LOCKS_EXCLUDED(mutex_);

  RunnerEnvironment environment_;
  Journal* const journal_;

  HeldDirectories held_directories_;

  mutable Mutex mutex_;  // Before those of jobs and of held directories.
  std::map<uint64_t, Entry> jobs_ ABSL_GUARDED_BY(mutex_);  // By number.
  absl::flat_hash_map<std::string, uint64_t> by_id_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::string> by_request_ ABSL_GUARDED_BY(mutex_);
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those whose runners have no thread yet, by number. They have their turns, and no state of their
  // own: to everybody else their runners are slow to begin.
  std::set<uint64_t> unstarted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Last: their threads use the others.
  LateCall start_later_;
  Retention retention_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_JOB_TABLE_H_
