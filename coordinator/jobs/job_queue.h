// Which jobs run, which wait for their turn, and how many may.
#ifndef MILLRACE_COORDINATOR_JOBS_JOB_QUEUE_H_
#define MILLRACE_COORDINATOR_JOBS_JOB_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

namespace millrace::coordinator {

struct QueueLimits {
  size_t running = 16;    // At a time.
  size_t pending = 2000;  // Waiting for their turns, or being submitted.
  // Of the specs of those, as they came.
  uint64_t pending_bytes = uint64_t{64} << 20;
};

// Jobs are numbers to it. First in, first out; those that had started in an earlier life of the
// coordinator come before those that had not. Not thread-safe.
class JobQueue {
 public:
  explicit JobQueue(const QueueLimits& limits) : limits_(limits) {}

  // Keeps a place for a job that is being submitted, until Release. RESOURCE_EXHAUSTED: there is
  // none; the message says what to do.
  absl::Status Reserve(uint64_t bytes);
  void Release(uint64_t bytes);

  // The job waits for its turn from now on. What was taken once is not refused again.
  void Add(uint64_t number, bool has_started, uint64_t bytes);

  // The job whose turn it is; it runs from now on. Nothing: none waits, or as many as may are
  // running.
  absl::optional<uint64_t> TakeNext();

  // The job does not wait any more, and runs although it may not be its turn: to be ended. False:
  // it does not wait.
  bool TakeOut(uint64_t number);

  // Those of which `ended` says so do not run any more.
  void EndIf(const std::function<bool(uint64_t number)>& ended);

  // The first to come first.
  std::vector<uint64_t> Waiting() const;
  const std::set<uint64_t>& running() const { return running_; }
  const QueueLimits& limits() const { return limits_; }

 private:
  using Turn = std::pair<bool, uint64_t>;  // Has not started, number.

  void Take(std::map<Turn, uint64_t>::iterator job);

  const QueueLimits limits_;
  std::map<Turn, uint64_t> waiting_;  // Their bytes.
  std::set<uint64_t> running_;
  size_t reserved_ = 0;
  uint64_t bytes_ = 0;  // Of those that wait and the reserved ones.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_JOB_QUEUE_H_
