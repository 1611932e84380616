// A part of a job's variables: it applies each step to them exactly once, and hands out their
// values.
#ifndef MILLRACE_PS_SHARD_SHARD_H_
#define MILLRACE_PS_SHARD_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/dense/block_successors.h"
#include "ps/dense/push_assembly.h"
#include "ps/dense/shard_contents.h"
#include "ps/dense/shard_plan.h"
#include "ps/dense/shard_root.h"
#include "ps/dense/shard_state.h"
#include "ps/shard/counted_bytes.h"
#include "ps/shard/cut_plan.h"
#include "ps/shard/held_states.h"
#include "ps/shard/push_table.h"
#include "ps/shard/spare_memory.h"
#include "ps/shard/step_rule.h"

namespace millrace::ps {

// Takes the state that a pull asked for. Called once, without locks; does not block.
using StateCallback = std::function<void(absl::StatusOr<StatePtr>)>;

// The answer to a push that is refused.
PushResponse MakeRefusal(uint64_t push_id, const absl::Status& status, uint64_t version);

// What is kept of a shard besides its cuts.
struct ShardTerm {
  uint64_t generation = 0;
  uint64_t epoch = 0;
  CutName stepped_back_to = {};  // Where the epoch began.
  // The job has ended with this state, of which there is a cut.
  bool retired = false;
  uint64_t retired_version = 0;
  StepSet retired_applied = {};
};

// Thread-safe. Nothing blocks, except that Push computes: on the thread that brings the pieces, for
// about as long as receiving them took. See the essay in the .cc file.
class Shard {
 public:
  // `pool` and `spare` must outlive it; without `spare` nothing bounds what clients make it hold.
  // `root` is told of each new state; nullptr: nobody is. REQUIRES: `contents` fit the plan; the
  // database has `generation`.
  Shard(ShardPlan plan, uint64_t generation, ShardContents contents, BlockPool* pool,
        std::unique_ptr<ShardRoot> root = nullptr, SpareMemory* spare = nullptr);

  const ShardPlan& plan() const { return plan_; }
  const std::string& name() const { return name_; }

  // Takes one message, which `stream` carried. Returns true when it gets an answer: it was refused,
  // or it is the last of its push; `answer` is called once then, here or on another thread.
  // Statuses as documented for PushResponse. REQUIRES: StreamEnded(stream) has not been called.
  bool Push(uint64_t stream, DecodedPush message, PushAnswer answer);

  // Drops the unfinished pushes that `stream` carried parts of.
  void StreamEnded(uint64_t stream);

  // Calls `done` with the state that a pull asks for: now, and returns 0; or when it is there, and
  // returns a number for StopWaiting. Statuses as documented for PullResponse.
  uint64_t Read(const PullRequest& request, StateCallback done);

  // What a pull keeps its state in while it sends it: so the shard can take it back.
  std::shared_ptr<StateHold> Hold(StatePtr state);

  // Memory for values that a pull sends otherwise than as they lie in blocks; it counts as the
  // shard's while anybody has it. RESOURCE_EXHAUSTED: the server has none to spare.
  absl::StatusOr<std::shared_ptr<char[]>> MakeCopy(uint64_t bytes);

  // To be called about once a second: voids pushes that get no further, and ends groups of pulls.
  // Does not compute, since the thread that calls it has all shards to look after.
  void Tick(absl::Time now);

  // Ends a wait with `code`, unless it has ended: its callback gets an error that says what the
  // shard waits for.
  void StopWaiting(uint64_t waiter, absl::StatusCode code);

  // Statuses as documented in the .proto.
  absl::Status SetGeneration(uint64_t generation);
  absl::StatusOr<ShardStatus> PinCut(uint64_t generation, const std::string& cut_id);
  absl::Status UnpinCut(uint64_t generation, const std::string& cut_id);

  // Whether calls of `generation` may do something with the shard's state: FAILED_PRECONDITION
  // where it is at another generation, or closed.
  absl::Status CheckServes(uint64_t generation) const;
  // Whether a call of `generation` may change the shard at all: FAILED_PRECONDITION where the shard
  // is at a newer one.
  absl::Status CheckNotOlder(uint64_t generation) const;

  // Which states are captured for cuts from now on; `every_versions` is 0 or a power of two
  // (INVALID_ARGUMENT). An asynchronous shard has no use for it.
  absl::Status PlanCuts(uint64_t generation, uint64_t every_versions, uint64_t also_at);

  // Makes `contents`, a cut, the state, in the epoch that they name; what was held is forgotten.
  // Unfinished pushes and waiting pulls are refused. Done already: nothing changes.
  // INVALID_ARGUMENT: an epoch that is not above the shard's; FAILED_PRECONDITION: another
  // generation. REQUIRES: synchronous; the contents have neither held contributions nor a version
  // before.
  absl::Status StepBack(uint64_t generation, ShardContents contents);

  // See ParameterServerAdmin. They compute, as Push does.
  absl::StatusOr<MeasureVersionResponse> MeasureVersion(const MeasureVersionRequest& request);
  absl::StatusOr<ApplyVersionResponse> ApplyVersion(const ApplyVersionRequest& request);

  // OK: the shard stepped back to `cut` when `epoch` began, or can do so now. Statuses as above.
  absl::StatusOr<bool> SteppedBack(uint64_t generation, const CutName& cut, uint64_t epoch) const;

  // The job has ended: from now on pushes are refused, and what was not applied is forgotten.
  // FAILED_PRECONDITION: another generation.
  absl::Status Retire(uint64_t generation);
  bool retired() const;

  // A pinned state, and the epoch that it is of. NOT_FOUND; FAILED_PRECONDITION: see CheckServes.
  absl::StatusOr<CapturedCut> Pinned(uint64_t generation, const std::string& cut_id) const;

  // What could be given up: the values of a retired shard, when the database says that it is one.
  uint64_t GivableBytes() const;
  // Gives them up. Returns whether there was something to give up. Pulls have them read again then,
  // by a call of `reader`, which is made without locks, does not block, and leads to Restore some
  // time later.
  bool GiveUpValues();
  // REQUIRES: nobody pulls yet.
  void SetReader(std::function<void()> reader) { reader_ = std::move(reader); }
  // What was read, or why it could not be.
  void Restore(absl::StatusOr<StatePtr> state);

  ShardStatus Status() const;
  // The same, of a state that the shard has had: its version and what was applied.
  ShardStatus StatusAt(const ShardState& state) const;
  uint64_t generation() const;

  // What is to be written to the database; a moment between two step applications.
  ShardContents Contents() const;

  // No successor of this process is to find the shard in memory. Before it is dropped, and when all
  // of it is in the database.
  void ForgetRoot();

  // What the database has, for the status.
  void SetCutReport(CutReport report);

  // The captured state, which is not returned again; see CutPlan::Take.
  absl::optional<CapturedCut> TakeCapturedCut();

  // Whether states of regular versions are captured; see CutPlan.
  void AllowCuts(bool allowed);

  // Returns whether the shard is at another version. If not, the listener is called when it is.
  bool ListenForChange(uint64_t version);

  // `listener` is called, without locks, when a state has been captured; it must not block.
  // REQUIRES: nobody pushes yet.
  void SetCutListener(std::function<void()> listener) { cut_listener_ = std::move(listener); }

  // What is to be in the database, and whether it is: what it was made with, until set.
  ShardTerm term() const;
  bool IsStored(const ShardTerm& term) const;
  void SetStored(const ShardTerm& term);
  // Whether the database says that the shard is retired: then it has a cut of the final state.
  bool RetirementIsStored() const;

  // From now on, for good, every request is refused with `status`; waiting pulls end with it, and
  // unfinished pushes are dropped. NOT_FOUND: it was dropped. REQUIRES: not OK.
  void Refuse(const absl::Status& status);
  bool WasDropped() const;

 private:
  // Calls to be made, and memory to be released, when the lock is no longer held.
  struct Effects;
  struct Waiter {
    uint64_t version = 0;
    StateCallback done;
  };

  // Makes FLOAT32 of what is not and is to be kept as it is, where there is memory for it, which
  // `room` stands for. Statuses as for a push.
  absl::StatusOr<PlacedPieces> Widened(uint64_t stream, const PushRequest& header,
                                       PlacedPieces message, CountedBytes::Room* room)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Accept(uint64_t stream, const PushRequest& header, absl::StatusOr<PlacedPieces> message,
              PushAnswer* answer, Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives a message to its push, if all is in order.
  absl::StatusOr<PushPtr> Take(uint64_t stream, const PushRequest& header,
                               absl::StatusOr<PlacedPieces> message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts pieces as received, while the lock is held.
  CountPieces Counter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const PushRequest& header, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What it takes to have the gradients that are not applied yet.
  uint64_t GradientBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the server what the shard uses of its spare memory.
  void CountSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes old states back from pulls, the oldest first, where memory is short.
  void BoundOldStates(Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t MemoryBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPush(uint64_t stream, const PushRequest& header)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckGeneration(uint64_t generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, and that the shard is not closed.
  absl::Status CheckOpen(uint64_t generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> CheckStepBack(uint64_t generation, const CutName& cut, uint64_t epoch) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of MeasureVersionRequest and ApplyVersionRequest.
  template <typename Request>
  absl::Status CheckVersionCall(const Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<StatePtr> FindState(const PullRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<StatePtr> FindPinned(const std::string& cut_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void VoidPush(uint64_t push_id, Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPushes(const absl::Status& reason, Effects* effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUp(const absl::Status& reason, Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasValues() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !state_->blocks.empty(); }
  // A state without blocks: they are to be read. Statuses as for Read.
  absl::StatusOr<StatePtr> FindRetired(const PullRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why steps are refused that come after the job's end.
  absl::Status Ended() const;
  // Pulls that wait for the version that the shard has get it.
  void CompleteWaits(Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPins(Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeAll(const absl::Status& status, Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NextWork(Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A new rule, which knows of no push. What the old one gave out as work counts for nothing.
  void ReplaceRule(Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish(StatePtr state, Effects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To be called whenever what is in a root has changed; before anybody hears of it, and before the
  // references to what it was are gone.
  void WriteRoot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(const std::vector<Answered>& answered, Effects* effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string WaitsFor(uint64_t version) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ShardStatus StatusOf(const ShardState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(Effects effects) ABSL_LOCKS_EXCLUDED(mutex_);

  const ShardPlan plan_;
  const std::string name_;
  BlockSuccessors successors_;
  const UpdateTools tools_;
  const ShardStatus::Origin origin_;
  const absl::Duration load_;
  const uint64_t state_bytes_;
  const uint64_t frozen_bytes_;  // Of those; all states but one that is read share them.
  std::function<void()> cut_listener_;
  std::function<void()> reader_;

  // Held for short steps of bookkeeping only, never while computing; and while pieces are copied
  // that are not whole blocks, which workers do not send.
  mutable Mutex mutex_;
  StatePtr state_ ABSL_GUARDED_BY(mutex_);
  StatePtr previous_ ABSL_GUARDED_BY(mutex_);  // Synchronous only.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_);
  // In an earlier life of the process, more than the shard has: it is closed.
  bool more_acknowledged_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_);
  CutName stepped_back_to_ ABSL_GUARDED_BY(mutex_);
  ShardTerm stored_ ABSL_GUARDED_BY(mutex_);
  CutPlan cut_plan_ ABSL_GUARDED_BY(mutex_);
  CutReport cut_report_ ABSL_GUARDED_BY(mutex_);
  bool listening_ ABSL_GUARDED_BY(mutex_) = false;  // The next version is told.
  bool retired_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // `reader_` was called.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);  // See Refuse().
  std::unique_ptr<StepRule> rule_ ABSL_GUARDED_BY(mutex_) ABSL_PT_GUARDED_BY(mutex_);
  uint64_t rule_number_ ABSL_GUARDED_BY(mutex_) = 0;  // Of rule_; each one has another.
  int work_given_out_ ABSL_GUARDED_BY(mutex_) = 0;    // And not done; of rules before as well.
  PushTable pushes_ ABSL_GUARDED_BY(mutex_);
  CountedBytes received_ ABSL_GUARDED_BY(mutex_);  // Gradients,
  CountedBytes copies_ ABSL_GUARDED_BY(mutex_);    // and what pulls send of copies.
  absl::btree_map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_waiter_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, StatePtr> pinned_ ABSL_GUARDED_BY(mutex_);
  HeldStates held_states_ ABSL_GUARDED_BY(mutex_);
  size_t old_states_ ABSL_GUARDED_BY(mutex_) = 0;  // Of those, that only pulls keep.
  SpareShare spare_ ABSL_GUARDED_BY(mutex_);
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // At the last Tick.
  // The last member, so that it goes before the blocks that it leads to. nullptr: none.
  std::unique_ptr<ShardRoot> root_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_SHARD_H_
