// One thread on which calls are made, one after the other.
#ifndef MILLRACE_PS_CUT_LANE_H_
#define MILLRACE_PS_CUT_LANE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::ps {

// What is called on one lane never overlaps, and waits for nothing on another. Thread-safe.
class Lane {
 public:
  static constexpr absl::Duration kPoll = absl::Milliseconds(100);

  // `clock` must outlive it.
  explicit Lane(Clock* clock);

  // Stops the thread, after the calls that were made.
  ~Lane();

  // Runs `call` on the thread, after those that were called before, and returns what it returns.
  // `what` names it in messages ("making shard 3 of job 'j'"). Blocks until `deadline`, then
  // DEADLINE_EXCEEDED, which names what the thread is at: a call that has not begun is forgotten,
  // one that has goes on, so it must hold what it uses. The same where `may_go_on`, which is asked
  // every kPoll while it waits, unless null, returns an error, which is returned then. REQUIRES:
  // not called on the thread itself.
  absl::Status Call(std::string what, absl::Time deadline, std::function<absl::Status()> call,
                    const std::function<absl::Status()>& may_go_on = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The same without waiting; what it returns goes to the log, unless OK.
  void Post(std::string what, std::function<absl::Status()> call) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Something for the thread to do.
  struct Job {
    uint64_t number = 0;
    std::string what;
    std::function<void()> run;
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the next job; false: there is none, and the thread ends.
  bool TakeJob(Job* job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets a job that has not begun. Returns what the thread is at.
  std::string GiveUp(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;  // jobs_ or stopping_
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_job_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string busy_ ABSL_GUARDED_BY(mutex_);  // What the thread is at.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_LANE_H_
