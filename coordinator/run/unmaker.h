// Gives up shards that a job has made: it makes way for others, or begins elsewhere.
#ifndef MILLRACE_COORDINATOR_RUN_UNMAKER_H_
#define MILLRACE_COORDINATOR_RUN_UNMAKER_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/job/job.h"
#include "coordinator/run/attach_tries.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// Used by the runner's thread. Statuses that are returned are what the run must end with.
class Unmaker {
 public:
  // None is owned.
  Unmaker(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter,
          AttachTries* tries)
      : job_(job), environment_(*environment), inbox_(inbox), reporter_(reporter), tries_(*tries) {}

  // Of one Attach.
  void Begin() {
    stuck_since_.reset();
    unmade_without_.reset();
  }

  // All servers are there: what was given up is made once more.
  void NobodyIsMissing() { unmade_without_.reset(); }

  // A new job could not make all its shards, for the reason that `status` says. Returns whether it
  // has given up those that it could make: where it waits for memory, unless it has the turn.
  absl::StatusOr<bool> MakeWay(ShardGroup& shards, const absl::Status& status);

  // The same for one that waits for a server: others must not wait with it, for who knows how long,
  // for the memory that it has elsewhere.
  absl::StatusOr<bool> MakeWayInTime(ShardGroup& shards);

  // Drops what servers have made of the job already, which nobody would look for later, and forgets
  // where it was placed; then it begins with `from`. False: that cannot be done now, and a lost
  // directory may be back before it can.
  absl::StatusOr<bool> Displace(ShardGroup& shards, const RestoredFrom& from);

 private:
  absl::Status Unmake(ShardGroup& shards);

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;
  AttachTries& tries_;

  // A new job waits for a server since then; nothing: it does not, or for memory.
  absl::optional<absl::Time> stuck_since_;
  // The servers that were missing when what it had made was dropped, and nothing was made since.
  absl::optional<std::map<std::string, std::string>> unmade_without_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_UNMAKER_H_
