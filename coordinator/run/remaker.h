// Has shards of a running job made again from a checkpoint, where what they had is gone.
#ifndef MILLRACE_COORDINATOR_RUN_REMAKER_H_
#define MILLRACE_COORDINATOR_RUN_REMAKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "coordinator/checkpoint/checkpoint_finder.h"
#include "coordinator/job/job.h"
#include "coordinator/run/avoided_servers.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/remake_plan.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// Used by the runner's thread. Calls that return true have journaled new placements, of which the
// group knows nothing: it is to be made anew from the record, and attached. They block for a
// bounded time, on files and on the journal, and return what the run must end with.
class Remaker {
 public:
  // None is owned.
  Remaker(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter)
      : job_(job),
        environment_(*environment),
        inbox_(inbox),
        reporter_(reporter),
        avoided_(environment->clock) {}

  // Attaching begins, and not because shards were placed again: nobody is missing yet, and no
  // checkpoint is known to be bad.
  void Begin();
  void NobodyIsMissing() { missing_since_.clear(); }
  // All shards have answered: none is lost, or not served.
  void AllAreThere() {
    unserved_.reset();
    hopeless_since_.reset();
  }
  // They go on together.
  void AllGoOn() { stuck_.reset(); }

  // The server with that directory could not be called since then, while the job trained.
  void NoteUnserved(const std::string& directory_id, absl::Time since) {
    unserved_ = Trouble{directory_id, since, environment_.clock->Now()};
  }

  // Looks at whom Locate has missed: shards are made elsewhere when all of those are back with
  // other directories, and those of a server that is gone for longer than --restore_grace.
  absl::StatusOr<bool> ReplaceMissing(ShardGroup& shards);
  // A call to all shards has failed so that it is tried again. Whether the failed one's server is
  // there and has not served it for longer than --restore_grace: its disk cannot be read, say.
  // Blocks for a call to it.
  bool IsUnserved(ShardGroup& shards, const absl::Status& status);
  // Stepping back has failed so that it is tried again. Whether it has for longer than
  // --restore_grace: a server cannot read a cut that it has, while it serves the shard from memory.
  bool IsStuck(const ShardGroup& shards, const absl::Status& status);
  // A call to all shards has failed for good, since there is no memory, or of an unserved one.
  // Where a shard's state is damaged or gone it is made again; where its checkpoint is damaged,
  // from the one before; where its server has no room for it, or did not make it in time, on
  // another one. All that an unserved server has is made elsewhere.
  absl::StatusOr<bool> ReplaceFailed(ShardGroup& shards, const absl::Status& status);
  // ReplaceFailed could do nothing. A shard that was made and is damaged, or not there, may come
  // back: its server's disk may be another copy than the right one.
  void NoteLost(const ShardGroup& shards, const absl::Status& status);
  // All shards of a synchronous job can step back to a cut that has `steps` steps; `cause` says why
  // they must. Where a checkpoint is further they are made again from that: a shard whose newest
  // cuts cannot be read, or whose disk is an old one, would take the others back to where it is.
  absl::StatusOr<bool> ReplaceByFurther(ShardGroup& shards, uint64_t steps,
                                        const std::string& cause);
  // What shards are to be made of cannot be read, and for --member_timeout nothing else was there:
  // the job cannot go on.
  bool IsHopeless() const;
  // Whether the checkpoint was removed; false also where that cannot be told.
  absl::StatusOr<bool> IsRemoved(const ShardRestore& checkpoint) const;
  // Whether the directory of checkpoints did not answer when one was looked for last.
  bool waits_for_files() const { return waits_for_files_; }
  // Why nothing could be made again when that was tried last. Empty: nothing was tried in vain.
  const std::string& why_not() const { return why_not_; }

  // Who is missing, with why nothing is done about it.
  std::map<std::string, std::string> Explain(std::map<std::string, std::string> missing) const;
  // The same for an error that ends the job; of one that cannot begin with its checkpoint, which
  // one can be taken instead.
  absl::Status Explain(const absl::Status& status) const;

 private:
  // Which shards have lost what, and whose place is to be another one.
  struct Losses {
    std::vector<bool> lost;
    std::vector<bool> moves;
    std::string cause;
  };
  // Of a server, by its directory.
  struct Trouble {
    std::string directory_id;
    absl::Time since;
    absl::Time last = {};  // When it was seen last.
  };
  // Notes that the failed shard's server is in trouble. Whether it was all the time since
  // --restore_grace before now.
  bool IsOverdue(const ShardGroup& shards, absl::optional<Trouble>& trouble) const;
  absl::StatusOr<bool> ReplaceMade(ShardGroup& shards, Losses losses, const absl::Status& status);
  absl::StatusOr<bool> ReplaceUnserved(ShardGroup& shards, Losses losses);
  absl::StatusOr<bool> ReplaceGone(ShardGroup& shards, Losses losses, const ShardRestore& gone);
  absl::StatusOr<bool> ReplaceDamaged(ShardGroup& shards, Losses losses, const ShardRestore& bad,
                                      const absl::Status& damage);
  absl::StatusOr<bool> DropAgain(ShardGroup& shards);
  absl::StatusOr<bool> WaitForHanging(const absl::Status& status);
  void NoteHopeless(const std::string& what);
  absl::StatusOr<bool> MakeAgain(ShardGroup& shards, Losses losses);
  bool CannotMake(const Losses& losses, const std::string& why_not);
  absl::StatusOr<bool> MakeOf(const FoundCheckpoint& found, ShardGroup& shards, Losses losses);
  absl::StatusOr<FoundCheckpoint> FindUsable();
  std::set<uint64_t> DamagedIn(const std::string& directory) const;
  std::set<uint64_t> DamagedBeside(const FoundCheckpoint& found) const;
  void DropStrays(const JobRecord& before, absl::Span<const ShardPlacement> after) const;

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;

  // Since Begin.
  std::map<std::string, absl::Time> missing_since_;    // By directory.
  std::map<std::string, std::set<uint64_t>> damaged_;  // By directory of checkpoints.
  std::set<std::string> told_;  // Of checkpoints that cannot be opened: what people were told.
  // The server that did not serve its shards when all were asked last; and the one that could not
  // step back.
  absl::optional<Trouble> unserved_;
  absl::optional<Trouble> stuck_;
  AvoidedServers avoided_;  // Without room, or that hang.
  // What shards are to be made of cannot be read, and nothing else is there, since then.
  absl::optional<absl::Time> hopeless_since_;
  absl::Time look_again_ = absl::InfinitePast();
  bool waits_for_files_ = false;
  std::string why_not_;  // For people. Empty: nothing was tried in vain.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_REMAKER_H_
