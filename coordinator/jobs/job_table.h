// All jobs of a coordinator, and their runners.
#ifndef MILLRACE_COORDINATOR_JOBS_JOB_TABLE_H_
#define MILLRACE_COORDINATOR_JOBS_JOB_TABLE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "coordinator/checkpoint/checkpoint_requests.h"
#include "coordinator/jobs/job.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/jobs/job_runner.h"
#include "coordinator/jobs/retention.h"
#include "coordinator/journal/journal.h"
#include "coordinator/membership/member_registry.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Thread-safe.
class JobTable final : public MemberObserver {
 public:
  // `environment` lacks elements_on, drop_strays and on_ended, which the table adds. `journal` is
  // not owned.
  JobTable(const RunnerEnvironment& environment, const RetentionLimits& limits, Journal* journal,
           const QueueLimits& queue_limits = {});
  // Stops.
  ~JobTable() override;

  // Reads the journal. Once, before anything else.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes up the jobs that Load found unfinished, those that had started first. REQUIRES: no Cancel
  // before.
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_);

  // See the service's SubmitJob. Blocks while a worker compiles the model, or until `cancelled`
  // returns true: then nothing is taken. Returns the job's id.
  absl::StatusOr<std::string> Submit(const SubmitJobRequest& request,
                                     const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // NOT_FOUND names the job.
  absl::StatusOr<std::shared_ptr<Job>> Find(const std::string& job_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The newest first.
  std::vector<std::shared_ptr<Job>> Jobs() const ABSL_LOCKS_EXCLUDED(mutex_);

  // See the service's ExplainJob. Does not block.
  JobExplanation Explain(Job& job) const;

  // Returns at once; the job ends soon, if it has not ended yet.
  void Cancel(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  // See JobRunner::RequestCheckpoint. FAILED_PRECONDITION: the job has no directory for
  // checkpoints, has not begun (it waits for its turn), or has ended.
  absl::Status RequestCheckpoint(const Job& job, CheckpointRequest request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Has all jobs that train and have a directory write a checkpoint, and waits for that, `timeout`
  // at most.
  void WriteCheckpoints(const std::string& cause, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Stops the runners and waits for them. Jobs stay as they are in the journal.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Warns of shards of jobs that are not in the journal; has those dropped that their jobs have not
  // placed there.
  void OnPsJoined(const RegisterPs& ps) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMembersChanged() override ABSL_LOCKS_EXCLUDED(members_mutex_, mutex_);
  void OnWorkerMessage(const WorkerMember& worker, const MemberMessage& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Has jobs with shards there write checkpoints; then it may leave.
  void OnPsDraining(const PsMember& ps) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::shared_ptr<Job> job;
    std::shared_ptr<JobRunner> runner;  // None while the job waits for its turn, or has ended.
    // On its directory of checkpoints. None: it has no such directory, waits for its turn, or has
    // ended.
    std::shared_ptr<CheckpointHold> hold;
  };
  // A hold that was made here, by a job or for a submission that is under way or was left behind.
  struct Holding {
    std::string directory;  // As NormalDirectory writes it.
    std::shared_ptr<const std::atomic<bool>> released;
  };

  // The id of the job that an earlier request made, or "" when this request is the one to make it;
  // then Release must follow. Waits for another one that is under way. ALREADY_EXISTS: the earlier
  // request had another spec.
  absl::StatusOr<std::string> Claim(const SubmitJobRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(const std::string& request_id) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> Take(const SubmitJobRequest& request,
                                   const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ClaimDirectory(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseDirectory(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<CheckpointHold> MakeHold(const std::string& directory)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<CheckpointHold>> HoldDirectory(
      const JobSpec& spec, const std::function<bool()>& cancelled) ABSL_LOCKS_EXCLUDED(mutex_);
  // That train, and have a directory for checkpoints.
  std::vector<std::pair<std::shared_ptr<Job>, std::shared_ptr<JobRunner>>> WithCheckpoints() const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Appends to `notices` what people should know of the plan.
  absl::Status PlanInto(JobRecord& record, const std::function<bool()>& cancelled,
                        std::vector<std::string>& notices);
  absl::StatusOr<std::string> TakeReserved(const SubmitJobRequest& request,
                                           const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Knows the job from now on.
  absl::Status Add(std::shared_ptr<Job> job) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same; and it waits for its turn. Where that has come it goes on with `hold`, which is then
  // null.
  absl::Status AddNew(std::shared_ptr<Job> job, std::shared_ptr<CheckpointHold>& hold)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Entry& AddLocked(std::shared_ptr<Job> job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Some runner has finished: whose turn is it now?
  void RunNext() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunWhoseTurnItIs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that have ended and whose runners are gone; lets runners go that have finished.
  std::vector<std::shared_ptr<Job>> EndedJobs() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Forget(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<JobRunner> RunnerOf(const std::string& job_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::shared_ptr<JobRunner>> Runners() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t ElementsOn(const std::string& directory_id) const ABSL_LOCKS_EXCLUDED(mutex_);

  RunnerEnvironment environment_;
  Journal* const journal_;

  // Held while the workers are read from the registry and given to the dispatcher, so that an older
  // list never replaces a newer one. Before all other locks.
  Mutex members_mutex_;

  mutable Mutex mutex_;
  CondVar released_;
  std::map<uint64_t, Entry> jobs_ ABSL_GUARDED_BY(mutex_);  // By number.
  absl::flat_hash_map<std::string, uint64_t> by_id_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::string> by_request_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> claimed_ ABSL_GUARDED_BY(mutex_);
  // Directories of checkpoints, as NormalDirectory writes them, of jobs that are being taken.
  absl::flat_hash_set<std::string> claimed_directories_ ABSL_GUARDED_BY(mutex_);
  std::vector<Holding> holdings_ ABSL_GUARDED_BY(mutex_);
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  Retention retention_;  // Last: its thread uses the others.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_JOB_TABLE_H_
