// The thread that writes to the database.
#ifndef MILLRACE_PS_STORE_FLUSHER_H_
#define MILLRACE_PS_STORE_FLUSHER_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "ps/store/cut_store.h"
#include "ps/store/shard.h"

namespace millrace::ps {

// Writes a cut of each watched shard once in its cut period, if it has a new version. All else that
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
  // Blocks. REQUIRES: not called on the thread itself.
  absl::Status Call(std::function<absl::Status()> call) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Watched {
    std::weak_ptr<Shard> shard;
    const Shard* key = nullptr;
    absl::Duration period;
    absl::Time due;
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // The shard whose cut is due, or nullptr. Sets when the next one is.
  std::shared_ptr<Shard> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CutStore* const store_;
  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;  // calls_, watched_ or stopping_
  std::deque<std::function<void()>> calls_ ABSL_GUARDED_BY(mutex_);
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

#endif  // MILLRACE_PS_STORE_FLUSHER_H_
