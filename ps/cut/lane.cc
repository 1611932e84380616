#include "ps/cut/lane.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::ps {

Lane::Lane(Clock* clock) : clock_(clock), thread_([this] { Loop(); }) {}

Lane::~Lane() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

absl::Status Lane::Call(std::string what, absl::Time deadline, std::function<absl::Status()> call,
                        const std::function<absl::Status()>& may_go_on) {
  struct Result {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  const auto result = std::make_shared<Result>();
  const auto run = [call = std::move(call), result] {
    absl::Status status = call();
    MutexLock lock(&result->mutex);
    result->status = std::move(status);
    result->done = true;
    result->changed.SignalAll();
  };
  uint64_t number;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the ps server stops");
    number = ++last_job_;
    jobs_.push_back({number, what, run});
  }
  changed_.SignalAll();
  for (absl::Time poll = clock_->Now() + kPoll;; poll = clock_->Now() + kPoll) {
    const absl::Time until = may_go_on ? std::min(deadline, poll) : deadline;
    {
      MutexLock lock(&result->mutex);
      while (!result->done && clock_->Now() < until) {
        clock_->WaitUntil(&result->changed, &result->mutex, until);
      }
      if (result->done) return result->status;
    }
    if (until == deadline) break;
    const absl::Status wanted = may_go_on();
    if (wanted.ok()) continue;
    GiveUp(number);
    return wanted;
  }
  return absl::DeadlineExceededError(
      absl::StrCat(what, " took too long: the disk is busy with ", GiveUp(number), "; try again"));
}

void Lane::Post(std::string what, std::function<absl::Status()> call) {
  auto run = [what, call = std::move(call)] {
    const absl::Status status = call();
    LOG_IF(ERROR, !status.ok()) << what << ": " << status;
  };
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    jobs_.push_back({++last_job_, std::move(what), std::move(run)});
  }
  changed_.SignalAll();
}

std::string Lane::GiveUp(uint64_t number) {
  Job forgotten;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  const auto it = std::find_if(jobs_.begin(), jobs_.end(),
                               [number](const Job& job) { return job.number == number; });
  if (it != jobs_.end()) {
    forgotten = std::move(*it);
    jobs_.erase(it);
  }
  return busy_.empty() ? "other work" : busy_;
}

bool Lane::TakeJob(Job* job) {
  MutexLock lock(&mutex_);
  busy_.clear();
  while (jobs_.empty()) {
    if (stopping_) return false;
    changed_.Wait(&mutex_);
  }
  *job = std::move(jobs_.front());
  jobs_.pop_front();
  busy_ = job->what;
  return true;
}

void Lane::Loop() {
  Job job;
  while (TakeJob(&job)) {
    job.run();
    job = Job();  // What it holds may be a shard's memory.
  }
}

}  // namespace millrace::ps
