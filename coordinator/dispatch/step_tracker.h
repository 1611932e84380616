// Which steps of a job are done, leased or free, and which may be handed out next.
#ifndef MILLRACE_COORDINATOR_DISPATCH_STEP_TRACKER_H_
#define MILLRACE_COORDINATOR_DISPATCH_STEP_TRACKER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"

namespace millrace::coordinator {

struct StepRules {
  uint64_t total_steps = 0;
  // Contributions of a synchronous version; 0: asynchronous.
  uint32_t replicas = 0;
  // Asynchronous: step n may go when every step before n - staleness_bound is done.
  uint32_t staleness_bound = 0;
  // Synchronous: so many steps may be with a second worker before they are late.
  uint32_t backup = 0;
  // Asynchronous: workers begin to pull for their next step while they compute one.
  bool pulls_ahead = false;
  // Of a generation: their numbers have 32 bits, and after half of them it is time for another one.
  uint64_t most_leases = uint64_t{1} << 31;
};

// Pure bookkeeping: time and workers are numbers to it. Not thread-safe.
class StepTracker {
 public:
  struct Lease {
    uint64_t id = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // Nothing may be taken before the first Reset.
  explicit StepTracker(const StepRules& rules);

  // Begins a generation in which exactly the steps of `done` are done, however far apart. All
  // leases are void, and whatever is still heard of them is ignored. REQUIRES: `generation` grows
  // and is below 2^32.
  void Reset(uint64_t generation, const AppliedSet& done);

  // No step from `barrier` on is handed out until the barrier is moved.
  void SetBarrier(uint64_t barrier) { barrier_ = barrier; }

  // Another generation is to begin soon: this one has had its leases. As many again can be made
  // until it does.
  bool LeasesAreUsedUp() const { return leases_made_ >= rules_.most_leases; }

  // Whether Take would find a step.
  bool CanTake() const;
  // Steps before the end of the window, out or free, that are not done.
  uint64_t LeftInWindow() const { return Limit() - std::min(Limit(), done_.size()); }
  // The first step that Take would find, if it may go.
  uint64_t NextToTake() const { return freed_.empty() ? next_ : *freed_.begin(); }

  // Hands up to `max_steps` consecutive steps to a worker: the lowest that are free, if they may
  // go. REQUIRES: max_steps >= 1.
  absl::optional<Lease> Take(uint64_t worker, uint64_t max_steps, absl::Time now,
                             absl::Time deadline);

  // What a lease is to a worker that speaks of it.
  enum class Claim {
    kNone,   // Nothing: another worker has it, or there was none in this generation.
    kEnded,  // It may have been this worker's, before its stream broke: it is another one since.
    kOwn,    // The worker has it, expired or not.
  };
  Claim ClaimOf(uint64_t worker, uint64_t lease_id) const;

  // Every shard has acknowledged `step` for a worker that had it by this lease; the lease, if there
  // still is one, now lasts until `deadline`, or ends with its last step. A step that is not of the
  // lease is ignored. Returns whether the step was not done before.
  bool Done(uint64_t lease_id, uint64_t step, absl::Time deadline);

  // Whether others have done all that is left of a lease. Not of one that there is not.
  bool IsDoneByOthers(uint64_t lease_id) const;

  // What is not done of a lease is free again. Returns false when there is no such lease.
  bool GiveBack(uint64_t lease_id);
  // The same for all leases of a worker.
  void GiveBackAll(uint64_t worker);

  // What is out: a step that is not done, who has it, and since when.
  struct Pending {
    uint64_t step = 0;
    uint64_t worker = 0;
    absl::Time since;
    uint64_t lease_id = 0;
  };

  // Of each unexpired lease the lowest step that nobody else has too.
  std::vector<Pending> OutOnce() const;

  // How many steps are with two workers.
  size_t OutTwice() const { return twice_.size(); }

  // Hands the steps of `once` and up to `max_steps` consecutive ones of its lease to another worker
  // as well: whoever reports first counts. No step is out more than twice. REQUIRES: `once` is from
  // OutOnce, with nothing done since; max_steps >= 1.
  Lease TakeAgain(const Pending& once, uint64_t worker, uint64_t max_steps, absl::Time now,
                  absl::Time deadline);

  // When a worker was heard last. A step of another job says of what it has of this one only that
  // it may wait for its turn: for `patience`, and no longer, however many there are.
  struct Heard {
    absl::Time here = absl::InfinitePast();      // With a step of this job.
    absl::Time anywhere = absl::InfinitePast();  // With a step of any job.
    absl::Duration patience = absl::ZeroDuration();

    // When something was heard last of what the worker was given at `taken`.
    absl::Time OfWhatWasTaken(absl::Time taken) const;
  };

  // Leases of a worker that have not expired last for `duration` from when it was `heard`, or from
  // when they were taken if that is later.
  void Renew(uint64_t worker, const Heard& heard, absl::Duration duration);

  // Frees what is not done of leases that have passed their deadlines; returns the lowest step of
  // each. Their workers keep their slots until they speak or leave.
  std::vector<Pending> Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // The lowest step that is out, in an unexpired lease; nothing where there is none.
  absl::optional<Pending> LowestPending() const;
  // The same for leases that have expired, whose workers have neither spoken nor left.
  absl::optional<Pending> LowestExpired() const;

  // Of each lease of a worker that has one, the lowest step that is not done, and whether the lease
  // has expired.
  std::vector<std::pair<Pending, bool>> OutTo(uint64_t worker) const;

  // When a worker was given a step by a lease; nothing where it has not got it, or has reported it.
  absl::optional<absl::Time> TakenAt(uint64_t worker, uint64_t lease_id, uint64_t step) const;

  // Leases that a worker has, expired ones among them.
  uint32_t LeasesOf(uint64_t worker) const;

  // Steps for a lease, when `slots` leases can be out at a time: enough to save messages where the
  // window is wide, few enough that every slot gets some.
  uint64_t LeaseSize(uint64_t slots) const;

  const StepRules& rules() const { return rules_; }
  uint64_t generation() const { return generation_; }
  const AppliedSet& done() const { return done_; }
  // No step from here on was handed out in this generation, and this one is not done. Later ones
  // may have been when it began.
  uint64_t next() const { return next_; }
  // Whether the barrier is what keeps steps from being handed out.
  bool BarrierHolds() const { return next_ >= barrier_ && barrier_ < rules_.total_steps; }
  bool AtBarrier() const { return done_.watermark() >= barrier_; }

 private:
  struct LeaseState {
    uint64_t worker = 0;
    absl::Time taken;
    absl::Time deadline;
    bool expired = false;
    absl::btree_set<uint64_t> pending;  // Not yet reported.
  };
  using Leases = absl::btree_map<uint64_t, LeaseState>;

  uint64_t Limit() const;
  // Moves next_ on, past what is done.
  void PassNext();
  Lease AddLease(LeaseState lease, uint64_t begin, uint64_t end);
  absl::optional<uint64_t> LowestOf(const LeaseState& lease) const;
  absl::optional<Pending> LowestOut(bool expired) const;
  void FreePending(const LeaseState& lease);
  Leases::iterator EndLease(Leases::iterator lease);

  const StepRules rules_;
  uint64_t generation_ = 0;
  uint64_t leases_made_ = 0;  // In this generation.
  uint64_t barrier_;
  AppliedSet done_;
  uint64_t next_ = 0;                // See next().
  absl::btree_set<uint64_t> freed_;  // Below next_, not done, not in an unexpired lease.
  absl::btree_set<uint64_t> twice_;  // Not done, in two unexpired leases.
  Leases leases_;
  absl::flat_hash_map<uint64_t, uint32_t> leases_of_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_STEP_TRACKER_H_
