// Moves shards of a running job to other ps servers: away from those that are evacuated, and where
// somebody wants them to be spread better.
#ifndef MILLRACE_COORDINATOR_RUN_RELOCATOR_H_
#define MILLRACE_COORDINATOR_RUN_RELOCATOR_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/retry.h"
#include "coordinator/job/job.h"
#include "coordinator/run/avoided_servers.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/move_plan.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// A move loses no step and repeats none. The job comes to rest at a barrier; its shards get a new
// generation, which no worker knows; other servers copy the shards that are to move, at the
// generation after it. Nothing is settled by that: the job is where the journal says, and one write
// there says that it is elsewhere now, and has the copies' generation. Whatever goes wrong before,
// the job goes on where it was, and the copies count for nothing. So a server has a shard at a
// generation that is above that of every record which does not place it there: calls to drop what
// is not placed there, however late, take no shard that is. Used by the runner's thread, but for
// AskForRebalance.
class Relocator {
 public:
  // None is owned.
  Relocator(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter)
      : job_(job),
        environment_(*environment),
        inbox_(inbox),
        reporter_(reporter),
        avoided_(environment->clock) {}

  // From any thread: shards are to move, so that servers hold as much as one another. Tried once.
  void AskForRebalance() { rebalance_is_asked_ = true; }

  // Whether the job should come to rest: shards may leave servers that are evacuated, or a
  // rebalance is asked for and helps; not during the pause after a try that failed. Where shards
  // cannot leave it tells why; and it has the copies of a try that failed dropped.
  bool WantsToMove(const ShardGroup& shards);

  // The job rests: the next Move is to move shards. Returns why it rests, for people.
  std::string Begin(const ShardGroup& shards);

  // All shards have answered under `generation`, which no worker has been told of. After Begin,
  // moves those that are to move. True: the shards are to be attached again, under another
  // generation, and where their places have changed the record says so; the group is of no more
  // use. Blocks while shards are copied. Otherwise what the run must end with.
  absl::StatusOr<bool> Move(ShardGroup& shards, const ShardGroup::Statuses& statuses,
                            uint64_t generation);
  // Nothing is to move now: the shards are not as they were.
  void Forget() { begun_ = false; }

  // "shard 1 moved from ps-2 to ps-0": what the last Move did. Empty: nothing since the last call.
  std::string TakeHow() { return std::exchange(how_, ""); }

 private:
  std::vector<ShardMove> Plan(const ShardGroup& shards) const;
  bool HaveToLeave(const ShardGroup& shards);
  absl::StatusOr<ShardGroup::Statuses> Copy(ShardGroup& shards,
                                            const ShardGroup::Statuses& statuses,
                                            absl::Span<const ShardMove> moves, uint64_t generation);
  absl::Status Settle(const ShardGroup& shards, absl::Span<const ShardMove> moves,
                      uint64_t generation);
  void NoteVain(const std::string& why, bool is_rebalance);
  bool Tell(const std::string& why);

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;

  AvoidedServers avoided_;  // Without room, or that hang.
  std::atomic<bool> rebalance_is_asked_{false};
  bool begun_ = false;
  std::string how_;
  std::vector<StrayShard> copies_in_vain_;
  Backoff pause_{absl::Seconds(5), absl::Minutes(2)};
  absl::Time next_ = absl::InfinitePast();
};

// What moves where servers are to hold as much as one another.
std::vector<ShardMove> PlanRebalance(const RunnerEnvironment& environment,
                                     absl::Span<const ShardPlacement> shards,
                                     const AvoidedServers& avoided);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_RELOCATOR_H_
