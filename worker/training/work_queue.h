// What a worker has been asked to do for one job, and in which order it does it.
#ifndef MILLRACE_WORKER_TRAINING_WORK_QUEUE_H_
#define MILLRACE_WORKER_TRAINING_WORK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/btree_map.h"
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

using Work = absl::variant<StepWork, Evaluate>;

// Steps come lowest first, whenever their leases came: in synchronous mode the others may wait for
// the lowest, and this worker with them. Evaluations come in the order of arrival, each after the
// leases that were there before it. A value type; not thread-safe.
class WorkQueue {
 public:
  // A lease without steps is ignored; one with a known id replaces the older.
  void Add(const Lease& lease);
  void Add(const Evaluate& evaluate);

  // What to do now; none when there is nothing. The work stays until it is finished or given back.
  absl::optional<Work> Next() const;

  // The steps to come, the nearest first; at most `limit`.
  std::vector<uint64_t> Upcoming(size_t limit) const;

  // Whether the work is still wanted.
  bool Contains(const StepWork& work) const;
  bool Contains(const Evaluate& evaluate) const;

  // Takes what is done out of the queue. Nothing happens when it is no longer there.
  void Finish(const StepWork& work);
  void Finish(const Evaluate& evaluate);

  // Takes a whole lease out of the queue: its other steps are given back too.
  void Remove(uint64_t lease_id) { leases_.erase(lease_id); }

  // Drops the work of other generations.
  void KeepOnly(uint64_t generation);
  void Clear();

  bool empty() const { return leases_.empty() && evaluations_.empty(); }

  // The first step of each lease that is left.
  std::vector<StepWork> Leases() const;

 private:
  struct LeaseEntry {
    uint64_t generation = 0;
    uint64_t next = 0;  // The first step that is not done.
    uint64_t end = 0;
    uint64_t arrival = 0;
  };
  struct EvaluationEntry {
    Evaluate evaluate;
    uint64_t arrival = 0;
  };

  // The entry whose next step is lowest. REQUIRES: leases_ is not empty.
  absl::btree_map<uint64_t, LeaseEntry>::const_iterator Lowest() const;
  bool EvaluationIsNext() const;

  absl::btree_map<uint64_t, LeaseEntry> leases_;  // By id.
  std::deque<EvaluationEntry> evaluations_;
  uint64_t arrivals_ = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_WORK_QUEUE_H_
