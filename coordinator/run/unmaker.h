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
#include "coordinator/run/avoided_servers.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/run/server_troubles.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// Used by the runner's thread. Statuses that are returned are what the run must end with.
class Unmaker {
 public:
  // None is owned.
  Unmaker(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter,
          AttachTries* tries)
      : job_(job),
        environment_(*environment),
        inbox_(inbox),
        reporter_(reporter),
        tries_(*tries),
        avoided_(environment->clock),
        troubles_(environment->clock) {}

  // Of one Attach.
  void Begin() {
    stuck_since_.reset();
    unmade_without_.reset();
    look_again_ = absl::InfinitePast();
  }

  // All servers are there: what was given up is made once more.
  void NobodyIsMissing() { unmade_without_.reset(); }

  // A new job could not make all its shards, for the reason that `status` says. Returns whether it
  // has given up those that it could make: where it waits for memory, unless it has the turn.
  absl::StatusOr<bool> MakeWay(ShardGroup& shards, const absl::Status& status);

  // The same for one that waits for a server: others must not wait with it, for who knows how long,
  // for the memory that it has elsewhere.
  absl::StatusOr<bool> MakeWayInTime(ShardGroup& shards);

  // A new job waits for servers that are not there, or a call of all shards has failed with
  // `status`. Where a server has held it up so for longer than --restore_grace without a break, or
  // for the whole time that a call has, and others are there, this forgets where the job was
  // placed, and avoids that server. It does so too where there is no room on these others for a job
  // that was placed there so, and more of them have come. What was made is dropped, now or later.
  // False: the job stays where it is. Block for a call to each of the others.
  absl::StatusOr<bool> LeaveMissing(ShardGroup& shards);
  absl::StatusOr<bool> LeaveFailed(ShardGroup& shards, const absl::Status& status);
  const AvoidedServers& avoided() const { return avoided_; }

  // Drops what servers have made of the job already, which nobody would look for later, and forgets
  // where it was placed; then it begins with `from`. False: that cannot be done now, and a lost
  // directory may be back before it can.
  absl::StatusOr<bool> Displace(ShardGroup& shards, const RestoredFrom& from);

 private:
  absl::Status Unmake(ShardGroup& shards);
  // `blamed`: by directory, what is wrong, for people.
  absl::StatusOr<bool> Leave(ShardGroup& shards, const std::map<std::string, std::string>& blamed,
                             bool at_once);
  absl::Status Leave(ShardGroup& shards, const std::string& notice);
  absl::StatusOr<bool> HasOthers();
  absl::StatusOr<bool> TakeMoreServers(ShardGroup& shards);

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;
  AttachTries& tries_;

  AvoidedServers avoided_;
  ServerTroubles troubles_;

  // A new job waits for a server since then, or has tried to drop its shards; nothing: it does not,
  // or for memory.
  absl::optional<absl::Time> stuck_since_;
  // The servers that were missing when what it had made was dropped, and nothing was made since.
  absl::optional<std::map<std::string, std::string>> unmade_without_;
  absl::Time look_again_ = absl::InfinitePast();  // For others.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_UNMAKER_H_
