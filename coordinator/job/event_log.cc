#include "coordinator/job/event_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/proto_time.h"

namespace millrace::coordinator {

EventLog::EventLog(uint64_t last_sequence, std::function<void(uint64_t)> on_append, Clock* clock,
                   size_t capacity)
    : on_append_(std::move(on_append)),
      clock_(clock),
      capacity_(capacity),
      last_sequence_(last_sequence) {}

void EventLog::Append(JobEvent event) { AppendNumbered(std::move(event), /*last=*/false); }

void EventLog::Close(JobEvent last) { AppendNumbered(std::move(last), /*last=*/true); }

void EventLog::AppendNumbered(JobEvent event, bool last) {
  MutexLock append_lock(&append_mutex_);
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    event.set_sequence(last_sequence_ + 1);
  }
  *event.mutable_time() = ToTimestamp(clock_->Now());
  if (on_append_) on_append_(event.sequence());
  {
    MutexLock lock(&mutex_);
    last_sequence_ = event.sequence();
    events_.push_back(std::move(event));
    if (events_.size() > capacity_) events_.pop_front();
    closed_ = last;
  }
  appended_.SignalAll();
}

void EventLog::Trim(size_t events) {
  MutexLock lock(&mutex_);
  while (events_.size() > std::max<size_t>(events, 1)) events_.pop_front();
  events_.shrink_to_fit();
}

std::vector<JobEvent> EventLog::Newest(size_t limit,
                                       const std::function<bool(const JobEvent&)>& wanted) {
  MutexLock lock(&mutex_);
  std::vector<JobEvent> newest;
  for (auto event = events_.rbegin(); event != events_.rend() && newest.size() < limit; ++event) {
    if (wanted(*event)) newest.push_back(*event);
  }
  std::reverse(newest.begin(), newest.end());
  return newest;
}

// There are none of an earlier life of the process.
bool EventLog::HasAfter(uint64_t sequence) const {
  return !events_.empty() && sequence < last_sequence_;
}

absl::StatusOr<EventLog::ReadResult> EventLog::ReadAfter(uint64_t sequence,
                                                         absl::Duration timeout) {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  MutexLock lock(&mutex_);
  if (sequence > last_sequence_) {
    return absl::OutOfRangeError(
        absl::StrCat("after_sequence: ", sequence, "; the newest event is ", last_sequence_));
  }
  while (!HasAfter(sequence) && !closed_) {
    if (Clock::Real()->WaitUntil(&appended_, &mutex_, deadline)) break;
  }
  ReadResult result;
  if (HasAfter(sequence)) {
    const uint64_t first = events_.front().sequence();
    result.event = events_[std::max(sequence + 1, first) - first];
  } else {
    result.end = closed_;
  }
  return result;
}

}  // namespace millrace::coordinator
