// Brings a job's shards into one generation and one state to go on from.
#ifndef MILLRACE_COORDINATOR_RUN_ATTACHER_H_
#define MILLRACE_COORDINATOR_RUN_ATTACHER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/job/job.h"
#include "coordinator/run/attach_tries.h"
#include "coordinator/run/avoided_servers.h"
#include "coordinator/run/mover.h"
#include "coordinator/run/relocator.h"
#include "coordinator/run/remaker.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/run/unmaker.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/merge_progress.h"
#include "coordinator/shards/shard_group.h"

namespace millrace::coordinator {

// All shards are at `generation`, and steps can be handed out from what they have.
struct Attached {
  uint64_t generation = 0;
  std::vector<ShardStatus> shards;
  MergedProgress merged;
  std::string how;  // For people: how the shards came back.
  // Shards came back, or went back, without what they may have acknowledged before. The record has
  // this too, until people were told: JobRecord.may_lack_steps.
  bool may_lack_steps = false;
  // Shards were made again from a checkpoint: why, and how long reading it took. Otherwise empty.
  std::string remake_cause = {};
  absl::optional<absl::Duration> load = {};
};

// Used by the runner's thread.
class Attacher {
 public:
  // None is owned.
  Attacher(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox, Reporter* reporter)
      : job_(job),
        environment_(*environment),
        inbox_(inbox),
        reporter_(reporter),
        remaker_(job, environment, inbox, reporter),
        relocator_(job, environment, inbox, reporter),
        tries_(job, inbox, reporter),
        unmaker_(job, environment, inbox, reporter, &tries_),
        mover_(job, environment, inbox, reporter, &tries_) {}

  // Blocks until all shards have answered, however often servers come and go meanwhile; returns
  // what the run must end with. Nothing: a server lost its directory before there was anything in
  // it, or has held up a job that has not begun for longer than --restore_grace, or the furthest
  // checkpoint, with which the job was to begin, is damaged or was removed and the record has
  // another one, and the job is to be placed again; or shards are to be made again, and the record
  // says where; or they were to move to other servers, and have, or have not. Either way the group
  // is of no more use.
  absl::StatusOr<absl::optional<Attached>> Attach(ShardGroup& shards);

  // Before it: the server with that directory could not be called since then. How long attaching
  // waits for it counts from there.
  void NoteUnserved(const std::string& directory_id, absl::Time since) {
    remaker_.NoteUnserved(directory_id, since);
  }

  // Who is to be asked before it whether shards are to move.
  Relocator& relocator() { return relocator_; }

  // The newest generation that may be in use anywhere.
  uint64_t generation() const { return tries_.generation(); }

  // Those that have held up the job before it began.
  const AvoidedServers& avoided() const { return mover_.avoided(); }

 private:
  using Statuses = ShardGroup::Statuses;

  void DescribeRemake(const ShardGroup& shards, Attached& attached) const;
  std::string DescribeReturns(const ShardGroup& shards, const Statuses& statuses) const;
  void NoteClosed(ShardGroup& shards);
  absl::Status NoteMayLackSteps();
  absl::StatusOr<absl::optional<Statuses>> Reach(ShardGroup& shards);
  absl::StatusOr<absl::optional<Statuses>> StepBackIfApart(ShardGroup& shards, Statuses statuses,
                                                           Attached& attached);
  absl::StatusOr<bool> MayGoBack(ShardGroup& shards, const AttachDecision& decision);
  absl::StatusOr<bool> DropFirst(ShardGroup& shards, bool is_new, bool* remade);
  absl::StatusOr<absl::optional<Statuses>> BringAll(ShardGroup& shards, bool is_new, bool* remade);
  // FAILED_PRECONDITION: the job has ended, and the journal has lost that. `statuses`: of the
  // shards that are there.
  absl::Status CheckNotEnded(const ShardGroup& shards, const Statuses& statuses);
  absl::StatusOr<Statuses> Bring(ShardGroup& shards, bool is_new);
  std::string DescribeMaking(const ShardGroup& shards, const std::vector<uint32_t>& unmade) const;
  absl::StatusOr<absl::optional<bool>> BeginWithAnother(ShardGroup& shards,
                                                        const absl::Status& status);
  void TellOther(const std::string& chosen, bool is_removed, const RestoredFrom& from,
                 const absl::Status& status) const;

  Job* const job_;
  const RunnerEnvironment& environment_;
  RunnerInbox* const inbox_;
  Reporter* const reporter_;
  Remaker remaker_;
  Relocator relocator_;
  AttachTries tries_;
  Unmaker unmaker_;
  Mover mover_;

  // Of one Attach.
  bool placed_again_ = false;
  std::set<uint32_t> closed_;  // Shards that were, before they heard of the generation.
  bool knows_closed_ = true;   // All have said whether they were.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_ATTACHER_H_
