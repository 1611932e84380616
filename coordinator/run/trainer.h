// Trains a job whose shards are attached, until it has ended or they must be attached again.
#ifndef MILLRACE_COORDINATOR_RUN_TRAINER_H_
#define MILLRACE_COORDINATOR_RUN_TRAINER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/retry.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/job/evaluation_verdict.h"
#include "coordinator/job/job.h"
#include "coordinator/job/progress_watch.h"
#include "coordinator/run/attacher.h"
#include "coordinator/run/evaluator.h"
#include "coordinator/run/norm_exchange.h"
#include "coordinator/run/relocator.h"
#include "coordinator/run/report_audit.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/cut_planner.h"
#include "coordinator/shards/shard_group.h"
#include "coordinator/shards/shard_watch.h"
#include "protos/events.pb.h"

namespace millrace::coordinator {

// Steps are handed out and counted on the threads that bring the messages (see Dispatcher). The
// runner's thread uses this for what is rare: barriers, members, trouble, and once a second a look
// at what the shards have, which it does not wait for.
class Trainer {
 public:
  struct Parts {
    Job* job = nullptr;
    const RunnerEnvironment* environment = nullptr;
    RunnerInbox* inbox = nullptr;
    Reporter* reporter = nullptr;
    ReportAudit* audit = nullptr;
    Relocator* relocator = nullptr;
    Checkpointer* checkpointer = nullptr;  // nullptr: the job has no checkpoints.
  };
  explicit Trainer(const Parts& parts);

  // What ended training before, for people; and what there was then. Everything is 0 for a job that
  // begins.
  struct Before {
    std::string cause = {};
    absl::Time since = {};
    AppliedSet done = {};   // Where it is known.
    uint64_t steps = 0;     // How many.
    bool is_least = false;  // Of `steps`: more may have been done since they were told.
    uint64_t version = 0;   // The newest of any shard.
  };

  // Hands out steps from what the shards have. Where something was before, tells what was lost.
  void Start(const Before& before, const Attached& attached, ShardGroup& shards,
             Evaluator& evaluator);

  struct End {
    bool finished = false;  // Otherwise the shards must be attached again: `before` says why.
    Before before = {};
    absl::optional<ShardWatch::Unserved> unserved = {};  // Where that is why.
  };
  // Blocks. Returns also what the run must end with. REQUIRES: Start, with the same arguments.
  absl::StatusOr<End> Train(ShardGroup& shards, Evaluator& evaluator);

  // What the dispatcher is told of a worker that gets no more steps of a job.
  static JobPrepared Refusal(const std::string& job_id, const std::string& why);

 private:
  enum class Next { kWait, kAgain, kDetach, kEnd };

  void AttachCheckpointer(const Attached& attached, ShardGroup& shards);
  void TellRecovery(const Before& before, const Attached& attached);
  void TellMissedEvaluations(const AppliedSet& done, const ShardGroup& shards,
                             const Evaluator& evaluator);
  Before WhatThereIs() const;
  absl::Status CheckFrontier(const ShardGroup& shards) const;
  absl::StatusOr<Next> LookAround(ShardGroup& shards, Evaluator& evaluator);
  absl::StatusOr<Next> ExchangeNorms(ShardGroup& shards);
  Next Detach(std::string cause);

  absl::StatusOr<Next> PassBarrier(const Dispatcher::Progress& progress, ShardGroup& shards,
                                   Evaluator& evaluator);
  bool MayRest(const ShardGroup& shards, const Evaluator& evaluator);
  void RestIfShardsMove(const Dispatcher::Progress& progress, const ShardGroup& shards,
                        const Evaluator& evaluator);
  absl::StatusOr<Next> LeaveServers(ShardGroup& shards);
  absl::StatusOr<Next> FlushTheEnd(ShardGroup& shards);
  Next AfterCheck(const BarrierCheck& check, ShardGroup& shards);
  bool PinsStay(const absl::Status& status);
  absl::StatusOr<Next> AfterError(const absl::Status& status, const ShardGroup& shards);
  void AdvanceCheckpoints(const Dispatcher::Progress& progress);
  uint64_t BarrierFrom(uint64_t step, const Evaluator& evaluator) const;
  // Nothing: none was due.
  absl::optional<absl::Status> PinForCheckpoint(const Dispatcher::Progress& progress,
                                                ShardGroup& shards);
  Next CheckpointTheEnd();
  void Block(const std::string& whom);
  void Unblock();
  absl::Status HandleEvaluations(Evaluator& evaluator);
  absl::Status Judge(Evaluated evaluated, Evaluator& evaluator);
  absl::Status ConcludeIfSaved(Evaluator& evaluator);
  absl::Status Conclude(Evaluator& evaluator);
  void SetEnd(uint64_t step, Evaluator& evaluator);
  void ForgetDamagedBest(const std::set<uint64_t>& damaged);

  void AccountForTime(const Dispatcher::Progress& progress, const Evaluator& evaluator,
                      const ShardGroup& shards);

  absl::Duration PollPeriod() const;
  void StartPollIfDue(ShardGroup& shards);
  bool HandlePoll(ShardGroup& shards);
  bool IsUnserved(const ShardGroup& shards, const Evaluator& evaluator);
  bool OthersAnswer(uint32_t shard, const ShardGroup& shards) const;
  bool IsHeldUpBy(uint32_t shard, const ShardGroup& shards, const Evaluator& evaluator) const;
  bool Audit(const std::vector<ShardStatus>& shards);
  void Exclude(const std::string& worker);
  absl::optional<Dispatcher::Stall> FindStall(const ShardGroup& shards) const;

  Job& job_;
  const RunnerEnvironment& environment_;
  RunnerInbox& inbox_;
  Reporter& reporter_;
  ReportAudit& audit_;
  Relocator& relocator_;
  Checkpointer* const checkpointer_;
  Clock* const clock_;
  const bool synchronous_;
  uint64_t total_steps_;  // Up to where the job ends.

  // Since Start.
  uint64_t generation_ = 0;
  uint64_t epoch_ = 0;     // Synchronous: of all shards.
  uint64_t frontier_ = 0;  // Of all shards at the start: no barrier lies before it, but the end.
  uint32_t furthest_ = 0;  // See MergedProgress.
  uint64_t barrier_ = 0;
  bool flushed_ = false;  // Every shard has all steps of the job, on disk.
  bool reports_are_false_ = false;
  std::string cause_;  // Why the shards must be attached again.
  absl::optional<ShardWatch::Unserved> unserved_;
  uint64_t applied_ = 0;  // Steps, and when there were more than before.
  absl::Time moved_at_;
  absl::optional<Dispatcher::Stall> blocked_;
  absl::optional<absl::Time> rest_wanted_since_;  // See MayRest.
  bool waits_for_checkpoint_ = false;             // The job's end does.
  // An evaluation that has a result; while its state is saved as the best.
  struct Judged {
    Evaluated evaluated;
    EvaluationVerdict verdict;
  };
  absl::optional<Judged> judged_;
  bool bests_are_kept_ = true;  // What is wrong with that is told once.
  absl::Time barrier_due_;
  uint64_t told_missed_before_ = 0;  // The evaluations before this barrier, in whatever generation.
  Backoff barrier_backoff_{absl::Milliseconds(10), absl::Seconds(2)};
  absl::Time tick_due_;
  absl::optional<CutName> last_cut_;  // Synchronous: of what was flushed at the end.

  NormExchange norms_;
  uint64_t checkpoint_wake_ = ~uint64_t{0};  // At so many steps a checkpoint has something to do.
  CutPlanner cuts_;
  absl::optional<absl::Time> pins_full_since_;  // See PinsStay.
  uint64_t wanted_version_ = 0;                 // By a checkpoint.
  uint64_t newest_version_ = 0;
  absl::Time poll_due_;
  ShardWatch watch_;
  std::vector<ShardStatus> seen_;  // In the last poll that all shards answered.

  ProgressWatch progress_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_TRAINER_H_
