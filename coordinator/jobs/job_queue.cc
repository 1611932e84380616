#include "coordinator/jobs/job_queue.h"

#include "absl/strings/str_cat.h"

namespace millrace::coordinator {

absl::Status JobQueue::Reserve(uint64_t bytes) {
  const size_t pending = waiting_.size() + reserved_;
  if (pending >= limits_.pending) {
    return absl::ResourceExhaustedError(
        absl::StrCat(pending,
                     " jobs wait for their turns, as many as --max_pending_jobs of the "
                     "coordinator allows; submit again when some have ended"));
  }
  if (pending > 0 && bytes_ + bytes > limits_.pending_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the specs of the ", pending, " jobs that wait for their turns have ", bytes_ >> 20,
        " MiB, and may have ", limits_.pending_bytes >> 20, "; submit again when some have ended"));
  }
  ++reserved_;
  bytes_ += bytes;
  return absl::OkStatus();
}

void JobQueue::Release(uint64_t bytes) {
  --reserved_;
  bytes_ -= bytes;
}

void JobQueue::Add(uint64_t number, bool has_started, uint64_t bytes) {
  if (waiting_.emplace(Turn(!has_started, number), bytes).second) bytes_ += bytes;
}

void JobQueue::Take(std::map<Turn, uint64_t>::iterator job) {
  bytes_ -= job->second;
  running_.insert(job->first.second);
  waiting_.erase(job);
}

absl::optional<uint64_t> JobQueue::TakeNext() {
  if (waiting_.empty() || running_.size() >= limits_.running) return absl::nullopt;
  const uint64_t number = waiting_.begin()->first.second;
  Take(waiting_.begin());
  return number;
}

bool JobQueue::TakeOut(uint64_t number) {
  for (const bool not_started : {false, true}) {
    const auto job = waiting_.find(Turn(not_started, number));
    if (job == waiting_.end()) continue;
    Take(job);
    return true;
  }
  return false;
}

void JobQueue::EndIf(const std::function<bool(uint64_t number)>& ended) {
  for (auto job = running_.begin(); job != running_.end();) {
    job = ended(*job) ? running_.erase(job) : std::next(job);
  }
}

std::vector<uint64_t> JobQueue::Waiting() const {
  std::vector<uint64_t> numbers;
  for (const auto& [turn, bytes] : waiting_) numbers.push_back(turn.second);
  return numbers;
}

}  // namespace millrace::coordinator
