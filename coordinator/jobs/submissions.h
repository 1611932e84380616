// What clients submit, until it is a job of the table.
#ifndef MILLRACE_COORDINATOR_JOBS_SUBMISSIONS_H_
#define MILLRACE_COORDINATOR_JOBS_SUBMISSIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/journal/journal.h"
#include "coordinator/run/runner_environment.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Thread-safe.
class Submissions {
 public:
  // `environment` is the one that the table was made with. `journal` and `table` are not owned.
  Submissions(const RunnerEnvironment& environment, Journal* journal, JobTable* table)
      : environment_(environment), journal_(journal), table_(table) {}

  // See the service's SubmitJob. Blocks while a worker compiles the model, or until `cancelled`
  // returns true: then nothing is taken. Returns the job's id.
  absl::StatusOr<std::string> Submit(const SubmitJobRequest& request,
                                     const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The id of the job that an earlier request made, or "" when this request is the one to make it;
  // then Release must follow. Waits for another one that is under way. ALREADY_EXISTS: the earlier
  // request had another spec.
  absl::StatusOr<std::string> Claim(const SubmitJobRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(const std::string& request_id) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> Take(const SubmitJobRequest& request,
                                   const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> TakeReserved(const SubmitJobRequest& request,
                                           const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ClaimDirectory(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseDirectory(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<CheckpointHold>> HoldDirectory(
      const JobSpec& spec, const std::function<bool()>& cancelled);
  // Appends to `notices` what people should know of the plan.
  absl::Status PlanInto(JobRecord& record, const std::function<bool()>& cancelled,
                        std::vector<std::string>& notices);

  const RunnerEnvironment environment_;
  Journal* const journal_;
  JobTable* const table_;

  // Held while the table is asked for what is submitted, so that a submission is always found here
  // or, as a job, there. Before the table's lock.
  Mutex mutex_;
  CondVar released_;
  absl::flat_hash_set<std::string> claimed_ ABSL_GUARDED_BY(mutex_);  // Requests, by their ids.
  // Directories of checkpoints, as NormalDirectory writes them, of jobs that are being taken.
  absl::flat_hash_set<std::string> claimed_directories_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_SUBMISSIONS_H_
