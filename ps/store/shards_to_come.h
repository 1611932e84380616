// The shards of a server that are not there yet.
#ifndef MILLRACE_PS_STORE_SHARDS_TO_COME_H_
#define MILLRACE_PS_STORE_SHARDS_TO_COME_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::ps {

// Those that are being made, by one call at a time, and those that the disk does not give, which
// the next start may find. Their memory is not to be taken by others. Thread-safe; only Begin
// blocks.
class ShardsToCome {
 public:
  // Job and number.
  using Key = std::pair<std::string, uint32_t>;
  // The right to make a shard. While it is held, other calls for the shard wait. REQUIRES: it goes
  // before the ShardsToCome.
  using Making = std::shared_ptr<const void>;

  // `clock` must outlive it.
  explicit ShardsToCome(Clock* clock) : clock_(clock) {}

  // Waits for calls that make the shard already. `memory_need`: bytes. ABORTED: the shard was
  // dropped meanwhile; DEADLINE_EXCEEDED: it is still being made by another call.
  absl::StatusOr<Making> Begin(const Key& key, uint64_t generation, uint64_t memory_need,
                               absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  // ABORTED: the shard that is being made was dropped.
  absl::Status Check(const Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Has those who make the shard, or wait for that, and are of no newer generation, make it not.
  void Drop(const Key& key, uint64_t generation) ABSL_LOCKS_EXCLUDED(mutex_);

  // The disk does not give the shard.
  void Await(const Key& key, uint64_t generation, uint64_t memory_need) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody waits for it any more.
  void Forget(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there are any that the disk does not give.
  bool awaits() const ABSL_LOCKS_EXCLUDED(mutex_);

  // FAILED_PRECONDITION: the shard is to come, and the generation is an older one.
  absl::Status CheckNotOlder(const Key& key, uint64_t generation) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Of all of them.
  absl::flat_hash_map<Key, uint64_t> MemoryNeeds() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Awaited {
    uint64_t generation = 0;
    uint64_t memory_need = 0;
  };
  struct UnderWay {
    uint64_t generation = 0;
    uint64_t memory_need = 0;
    bool dropped = false;  // It is not to be there when it is made.
  };
  // A call that would make a shard, behind one that does.
  struct Waiting {
    uint64_t generation = 0;
    bool dropped = false;  // The shard was, meanwhile.
  };

  void End(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);

  Clock* const clock_;
  mutable Mutex mutex_;
  CondVar made_;  // making_
  absl::flat_hash_map<Key, UnderWay> making_ ABSL_GUARDED_BY(mutex_);
  std::multimap<Key, Waiting*> waiting_ ABSL_GUARDED_BY(mutex_);  // On their calls' stacks.
  absl::flat_hash_map<Key, Awaited> awaited_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_SHARDS_TO_COME_H_
