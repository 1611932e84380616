// What the shards of a server may hold for a while, beyond what each needs to train (MemoryNeed).
#ifndef MILLRACE_PS_SHARD_SPARE_MEMORY_H_
#define MILLRACE_PS_SHARD_SPARE_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace millrace::ps {

// Counts it for all of them: gradients that are not applied yet, and what pulls keep, which are old
// states where they are slow, and copies. Thread-safe.
class SpareMemory {
 public:
  explicit SpareMemory(uint64_t limit = std::numeric_limits<uint64_t>::max()) : limit_(limit) {}

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

  // One user's share goes from `before` to `after`.
  void Change(uint64_t before, uint64_t after) {
    used_.fetch_add(after - before, std::memory_order_relaxed);
  }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_ = 0;
};

// One shard's share. Not thread-safe.
class SpareShare {
 public:
  // `reserved`: bytes of gradients that do not count, since the shard has them anyway. `spare` must
  // outlive it; nullptr: there is no limit.
  SpareShare(uint64_t reserved, SpareMemory* spare) : reserved_(reserved), spare_(spare) {}
  SpareShare(const SpareShare&) = delete;
  SpareShare& operator=(const SpareShare&) = delete;
  ~SpareShare() { Set(0, 0); }

  // Whether there is room for `gradients` bytes. What has begun finds room where something new
  // finds none: gradients under way are to be completed before others begin.
  bool HasRoom(uint64_t gradients, bool is_new) const {
    const uint64_t excess = Excess(gradients);
    if (spare_ == nullptr || excess == 0) return true;
    const uint64_t limit = is_new ? spare_->limit() / 2 : spare_->limit();
    return others() <= limit && excess <= limit - others();
  }

  // The shard has so many bytes of gradients under way, and of what pulls keep.
  void Set(uint64_t gradients, uint64_t pulls) {
    if (spare_ == nullptr) return;
    pulls_ = pulls;
    const uint64_t used = Excess(gradients) + pulls;
    spare_->Change(used_, used);
    used_ = used;
  }

  bool IsOverdrawn() const { return spare_ != nullptr && spare_->used() > spare_->limit(); }

  // What is used beside the shard's gradients.
  uint64_t others() const {
    if (spare_ == nullptr) return 0;
    return spare_->used() - std::min(used_, spare_->used()) + pulls_;
  }

 private:
  uint64_t Excess(uint64_t gradients) const {
    return gradients > reserved_ ? gradients - reserved_ : 0;
  }

  const uint64_t reserved_;
  SpareMemory* const spare_;
  uint64_t used_ = 0;
  uint64_t pulls_ = 0;  // Of those.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_SPARE_MEMORY_H_
