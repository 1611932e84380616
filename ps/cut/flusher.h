// The thread that writes to the database.
#ifndef MILLRACE_PS_CUT_FLUSHER_H_
#define MILLRACE_PS_CUT_FLUSHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "ps/cut/cut_store.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// Writes a cut of each watched shard once in its cut period, if it has a new version: the one that
// waits longest first, so that a disk too slow for all of them serves them in turn. All else that
// changes the database is called on this thread too, so that nothing overlaps. Thread-safe.
class Flusher {
 public:
  // `store` and `clock` must outlive it.
  Flusher(CutStore* store, Clock* clock);

  // Stops the thread, after the calls under way.
  ~Flusher();

  // From now on; until the shard is destroyed or Forget is called.
  void Watch(const std::shared_ptr<Shard>& shard) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const Shard* shard) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `call` on the thread, after those that were called before, and returns what it returns.
  // `what` names it in messages ("making shard 3 of job 'j'"). Blocks until `deadline`, then
  // DEADLINE_EXCEEDED, which names what the thread is at: a call that has not begun is forgotten,
  // one that has goes on, so it must hold what it uses. REQUIRES: not called on the thread itself.
  absl::Status Call(std::string what, absl::Time deadline, std::function<absl::Status()> call)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The same without waiting; what it returns goes to the log, unless OK.
  void Post(std::string what, std::function<absl::Status()> call) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Watched {
    std::weak_ptr<Shard> shard;
    const Shard* key = nullptr;
    absl::Duration period;
    absl::Time due;
  };
  // Something for the thread to do.
  struct Job {
    uint64_t number = 0;
    std::string what;
    std::function<void()> run;
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the next job; false: there is none, and the thread ends.
  bool TakeJob(Job* job) ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteCut(Shard* shard) ABSL_LOCKS_EXCLUDED(mutex_);
  // The shard whose cut is due for the longest time, or nullptr. Sets when its next one is.
  std::shared_ptr<Shard> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a job that has not begun. Returns what the thread is at.
  std::string GiveUp(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  CutStore* const store_;
  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;  // jobs_, watched_ or stopping_
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_job_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string busy_ ABSL_GUARDED_BY(mutex_);  // What the thread is at.
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // The last member: it uses the others.
};

// Writes the shard's newest state, unless that is in the database already. Blocks on the disk.
absl::Status FlushShard(CutStore* store, Shard* shard);

// The same, and with it all else that a clean stop must keep: in synchronous mode the version
// before, and the contributions that are held.
absl::Status FlushShardForStop(CutStore* store, Shard* shard);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_FLUSHER_H_
