// What happened to a job, numbered.
#ifndef MILLRACE_COORDINATOR_JOB_EVENT_LOG_H_
#define MILLRACE_COORDINATOR_JOB_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "protos/events.pb.h"

namespace millrace::coordinator {

// Keeps the newest events; the first ones of a long job are forgotten. Thread-safe.
class EventLog {
 public:
  static constexpr size_t kDefaultCapacity = 4096;

  // `last_sequence`: of events before, in an earlier life of the process. `on_append` is called
  // with each event's number before anybody can read the event, one at a time.
  EventLog(uint64_t last_sequence, std::function<void(uint64_t sequence)> on_append, Clock* clock,
           size_t capacity = kDefaultCapacity);

  // Gives the event the next number and the time. Does nothing when the log is closed.
  void Append(JobEvent event) ABSL_LOCKS_EXCLUDED(append_mutex_, mutex_);
  // The same, and no event follows.
  void Close(JobEvent last) ABSL_LOCKS_EXCLUDED(append_mutex_, mutex_);

  // Forgets all but the newest `events`, which are at least one.
  void Trim(size_t events) ABSL_LOCKS_EXCLUDED(mutex_);

  // The newest events that are `wanted`, the oldest first; at most `limit`.
  std::vector<JobEvent> Newest(size_t limit, const std::function<bool(const JobEvent&)>& wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);

  struct ReadResult {
    absl::optional<JobEvent> event;  // The first after `sequence` that is still there.
    bool end = false;                // There is none, and none will come.
  };
  // Waits up to `timeout` (of the machine's clock); neither event nor end: none came in time.
  // OUT_OF_RANGE: `sequence` is larger than the newest event's.
  absl::StatusOr<ReadResult> ReadAfter(uint64_t sequence, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void AppendNumbered(JobEvent event, bool last) ABSL_LOCKS_EXCLUDED(append_mutex_, mutex_);
  bool HasAfter(uint64_t sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void(uint64_t)> on_append_;
  Clock* const clock_;
  const size_t capacity_;

  Mutex append_mutex_;  // One appends at a time; before mutex_.
  Mutex mutex_;
  CondVar appended_;
  std::deque<JobEvent> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_sequence_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_EVENT_LOG_H_
