// Brings a new job to where its shards have their places: asks a worker for the plan, and assigns
// shards to ps servers. Both happen once; the results are in the job's record.
#ifndef MILLRACE_COORDINATOR_RUN_PREPARER_H_
#define MILLRACE_COORDINATOR_RUN_PREPARER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/retry.h"
#include "coordinator/job/job.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/run/avoided_servers.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"

namespace millrace::coordinator {

// Used by the runner's thread. Calls block until they are done, and return what the run must end
// with.
class Preparer {
 public:
  // None is owned.
  Preparer(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter)
      : job_(job),
        environment_(*environment),
        inbox_(inbox),
        reporter_(reporter),
        loss_pause_(kFirstLossPause, kLongestLossPause) {}

  // The plan, unless the job has one. Where workers are lost while they make it the job waits for
  // longer and longer between one and the next, until one succeeds or the job is cancelled: it may
  // be that the job kills them, or that they were restarted.
  absl::Status Plan();
  // The tensors that the job begins with, unless it has them or needs none. REQUIRES: Plan.
  absl::Status WarmStart();
  // The placements, unless the job has them; on none of those to avoid where there are others.
  absl::Status Place(const AvoidedServers& avoided);

 private:
  static constexpr absl::Duration kFirstLossPause = absl::Seconds(10);
  static constexpr absl::Duration kLongestLossPause = absl::Minutes(10);

  absl::Status WaitAfterLosses();
  absl::StatusOr<std::vector<PsMember>> AwaitServers();

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;
  std::vector<std::string> lost_planners_;
  Backoff loss_pause_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_PREPARER_H_
