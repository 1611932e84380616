// The evaluations of one job: when they are due, and the one under way.
#ifndef MILLRACE_COORDINATOR_RUN_EVALUATOR_H_
#define MILLRACE_COORDINATOR_RUN_EVALUATOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/run/evaluation_pace.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/shard_group.h"
#include "protos/cluster.pb.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// An evaluation is of the state in which exactly the steps before a barrier are applied: no later
// step is handed out before all shards have pinned that state; then training goes on while a worker
// evaluates the pins. One evaluation at a time: at the next barrier training waits for it. It ends
// when what it comes to is in the journal, and keeps its pins until then. Used by one thread.
class Evaluator {
 public:
  struct Options {
    std::string job_id;
    JobSpec spec;
    uint64_t total_steps = 0;
    uint64_t evaluated = 0;  // The barrier of the last evaluation that has a result.
    Clock* clock = Clock::Real();
  };

  // Not owned: `shards`, `dispatcher`.
  Evaluator(Options options, ShardGroup* shards, Dispatcher* dispatcher);

  // The first barrier that is at `step` or later, and later than the last evaluation.
  uint64_t BarrierFrom(uint64_t step) const;

  // Whether the job is evaluated at this barrier, and was not.
  bool IsDueAt(uint64_t barrier) const;

  // Pins the shards. Where the pinned state is that of exactly the steps before `step`, a worker is
  // asked and the evaluation is under way; otherwise says what the state is. `may_be_last`: this
  // may become the job's end, whose result has more to tell. REQUIRES: not under way.
  absl::StatusOr<BarrierCheck> Begin(uint64_t step, uint64_t generation, bool may_be_last = false);
  bool under_way() const { return step_.has_value(); }
  // Whether the last answer to the one that is under way was that a server cannot be reached.
  bool has_failed() const { return has_failed_; }

  // The name under which shards pin what is evaluated. It never comes again in a generation: a call
  // that unpins an earlier evaluation, however late, does not take what is pinned for this one.
  // What the last two left pinned goes before the next one is. REQUIRES: under way.
  const std::string& cut_id() const { return request_.cut_id(); }

  // Gives the evaluation to another worker when it is due: its worker is gone, cannot run the job
  // any more, or gets nothing of it (it was excluded), has failed or is slow.
  // Returns a message for people where something went wrong, or nothing. Call it often.
  std::string CheckWorker(const std::vector<WorkerMember>& workers);

  // Where the evaluation fails again and again, asks once in a while whether the shards still have
  // pinned what is evaluated, which somebody else may have unpinned. Where a shard's state is still
  // that of the steps before the barrier, it is pinned again; otherwise returns what is gone, and
  // the evaluation cannot take place in this generation. While a shard has not answered, results
  // count for nothing. Blocks while it asks. Nothing: not asked, or nothing is gone.
  absl::optional<std::string> LookAtPins();

  // For whom the evaluation waits; see Dispatcher::FindStall. Nothing: none is under way.
  absl::optional<Dispatcher::Stall> FindStall(const std::vector<WorkerMember>& workers) const;

  // A result that has come; End follows. Nothing: not of this evaluation, or to be tried again.
  // Errors end the job. Of several workers that were asked the first answer counts. Of metrics that
  // are too many, or have names that nobody can read, some are left out, which CheckWorker tells;
  // so it does where there are none.
  // REQUIRES: from a worker that was asked (Dispatcher::HasEvaluation).
  absl::StatusOr<absl::optional<Evaluated>> OnResult(const EvaluationReport& report);

  // The evaluation has a result, for good. The shards unpin what was evaluated. REQUIRES: OnResult
  // has returned it.
  void End();

  // The job has so many steps from now on.
  void SetEnd(uint64_t total_steps) { total_steps_ = total_steps; }

  // The generation ends, and the pins with it. Returns the step, if an evaluation was under way.
  absl::optional<uint64_t> Abandon();

  // Steps are run again: the state at the end will be another one, and is to be evaluated.
  void ForgetTheEnd() { evaluated_ = std::min(evaluated_, total_steps_ - 1); }

 private:
  void Assign();
  void GiveUp(const std::string& name);
  absl::Status TakeError(const EvaluationReport& report);
  void NoteMetrics(const std::string& worker, size_t reported, size_t taken);

  const Options options_;
  uint64_t total_steps_;
  uint64_t period_;  // Steps between evaluations; 0: at the end only.
  ShardGroup* const shards_;
  Dispatcher* const dispatcher_;

  uint64_t evaluated_;  // The barrier of the last evaluation that has a result.
  uint32_t evaluations_ = 0;
  uint64_t pins_ = 0;  // The last one's number.
  EvaluationPace pace_;

  // Of the one under way.
  absl::optional<uint64_t> step_;
  bool may_be_last_ = false;
  absl::optional<absl::Time> answered_at_;  // It has a result.
  Evaluate request_;
  absl::optional<uint64_t> worker_;  // Nothing: to be assigned.
  absl::Time assigned_at_;
  std::map<uint64_t, absl::Time> asked_at_;  // When a worker was asked first.
  absl::Time assign_at_ = absl::InfinitePast();
  absl::Time answer_by_ = absl::InfiniteFuture();
  int attempts_ = 0;
  int look_at_pins_at_ = 0;    // See LookAtPins: after so many attempts.
  bool pins_are_sure_ = true;  // Otherwise a shard was asked to pin again, and has not answered.
  bool has_failed_ = false;
  std::string trouble_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_EVALUATOR_H_
