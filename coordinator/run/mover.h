// Moves a job that has not begun from servers that hold it up to others.
#ifndef MILLRACE_COORDINATOR_RUN_MOVER_H_
#define MILLRACE_COORDINATOR_RUN_MOVER_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/retry.h"
#include "coordinator/job/job.h"
#include "coordinator/run/attach_tries.h"
#include "coordinator/run/avoided_servers.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/run/server_troubles.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// Nothing of such a job can be lost. A move drops what was made of it, now or before anything is
// made in its place, and forgets where it was placed; it is placed again then, on none of those
// that were left. Moves are some time apart, which grows. Used by the runner's thread. Statuses
// that are returned are what the run must end with.
class Mover {
 public:
  // None is owned.
  Mover(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter,
        const AttachTries* tries)
      : job_(job),
        environment_(*environment),
        inbox_(inbox),
        reporter_(reporter),
        tries_(*tries),
        avoided_(environment->clock),
        troubles_(environment->clock) {}

  // What a look at all shards has shown, which began then: servers are missing; or a call of all
  // shards has failed, and those that did not do it are ShardGroup::unserved().
  void NoteMissing(const ShardGroup& shards, absl::Time began);
  void NoteUnserved(const ShardGroup& shards, absl::Time began);

  // Leaves those that have held up the job for --restore_grace without a break, where others are
  // there. False: the job stays where it is. Blocks for a call to each of the others.
  absl::StatusOr<bool> Leave(ShardGroup& shards);

  // There is no room for the job where it is placed. Where it has left servers, and others are
  // there by now than were when it was placed, or those that it left, it moves to all of them.
  absl::StatusOr<bool> TakeMoreServers(ShardGroup& shards);
  // Whether the job need not end with this error, since it had room where it was placed first: for
  // --member_timeout.
  bool MayFindRoom(const absl::Status& status);

  const AvoidedServers& avoided() const { return avoided_; }

 private:
  void Note(std::map<std::string, std::string> blamed, absl::Time began);
  absl::StatusOr<bool> HasOthers();
  absl::Status Move(ShardGroup& shards, const std::string& notice);

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;
  const AttachTries& tries_;

  AvoidedServers avoided_;
  ServerTroubles troubles_;
  std::map<std::string, std::string> blamed_;  // By directory: what is wrong, for people.
  std::set<std::string> considered_;           // Directories, when it was moved last.
  Backoff pause_{absl::Seconds(10), absl::Minutes(10)};
  absl::Time next_ = absl::InfinitePast();  // When others are looked for again.
  absl::optional<absl::Time> no_room_since_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_MOVER_H_
