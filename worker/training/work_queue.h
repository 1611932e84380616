// What a worker has been asked to do for one job, and in which order it does it.
#ifndef MILLRACE_WORKER_TRAINING_WORK_QUEUE_H_
#define MILLRACE_WORKER_TRAINING_WORK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/variant.h"
#include "protos/cluster.pb.h"

namespace millrace::worker {

// One step of a lease.
struct StepWork {
  uint64_t lease_id = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
};

using QueuedWork = absl::variant<StepWork, Evaluate>;

// Steps come lowest first, whenever their leases came: in synchronous mode the others may wait for
// the lowest, and this worker with them. A job has one evaluation at a time, which comes after the
// leases that were there before it. A step is begun, and then finished or begun again: several may
// be under way, and they stay in the queue until they are finished. A value type; not thread-safe.
class WorkQueue {
 public:
  // A lease without steps is ignored; one with a known id replaces the older. It came `now`.
  void Add(const Lease& lease, absl::Time now);
  // Takes the place of another evaluation, which nobody waits for any more.
  void Add(const Evaluate& evaluate);

  // What to do now; none when all there is is under way. An evaluation is next until it is
  // finished.
  absl::optional<QueuedWork> Next() const;

  // The step that was next is under way.
  void Begin(const StepWork& work);
  // The step that was begun last of its lease is to come again.
  void BeginAgain(const StepWork& work);
  // No further step of the lease is next.
  void BeginNoMore(uint64_t lease_id);

  // The steps to come, the nearest first; at most `limit`.
  std::vector<uint64_t> Upcoming(size_t limit) const;

  // Whether the work is still wanted.
  bool Contains(const StepWork& work) const;
  bool Contains(const Evaluate& evaluate) const;

  // Takes what is done out of the queue. Nothing happens, and a step is not done, when it is no
  // longer there or one before it in its lease is not done.
  bool Finish(const StepWork& work);
  void Finish(const Evaluate& evaluate);

  // Takes a whole lease out of the queue: its other steps are given back too.
  void Remove(uint64_t lease_id) { leases_.erase(lease_id); }

  // Drops the work of other generations.
  void KeepOnly(uint64_t generation);
  void Clear();

  bool empty() const { return leases_.empty() && !evaluation_.has_value(); }

  // The first step that is not done of each lease that is left.
  std::vector<StepWork> Leases() const;
  // Of those that have no step under way.
  std::vector<StepWork> IdleLeases() const;

  // The coordinator has just been told of a step: all leases last for their durations from `now`.
  void Renew(absl::Time now);
  // Takes out the idle leases that have lasted too long, and returns them as IdleLeases does: their
  // steps may have gone to other workers.
  std::vector<StepWork> TakeExpired(absl::Time now);

 private:
  struct LeaseEntry {
    uint64_t generation = 0;
    uint64_t next = 0;   // The first step that is not done.
    uint64_t begun = 0;  // The first step that is not begun.
    uint64_t end = 0;
    uint64_t arrival = 0;
    absl::Duration duration;
    absl::Time deadline;
  };
  struct EvaluationEntry {
    Evaluate evaluate;
    uint64_t arrival = 0;
  };

  // The entry whose next step is lowest; the end: no step is left to begin.
  absl::btree_map<uint64_t, LeaseEntry>::const_iterator Lowest() const;
  bool EvaluationIsNext() const;

  absl::btree_map<uint64_t, LeaseEntry> leases_;  // By id.
  absl::optional<EvaluationEntry> evaluation_;
  uint64_t arrivals_ = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_WORK_QUEUE_H_
