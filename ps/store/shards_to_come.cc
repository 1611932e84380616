#include "ps/store/shards_to_come.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ps/dense/shard_plan.h"

namespace millrace::ps {
namespace {

absl::Status DroppedMeanwhile(const ShardsToCome::Key& key) {
  return absl::AbortedError(
      absl::StrCat(ShardName(key.first, key.second), " was dropped while it was made"));
}

}  // namespace

absl::StatusOr<ShardsToCome::Making> ShardsToCome::Begin(const Key& key, uint64_t generation,
                                                         uint64_t memory_need,
                                                         absl::Time deadline) {
  {
    MutexLock lock(&mutex_);
    Waiting waiting{.generation = generation};
    const auto entry = waiting_.emplace(key, &waiting);
    bool is_late = false;
    while (!is_late && !waiting.dropped && making_.contains(key)) {
      is_late = clock_->WaitUntil(&made_, &mutex_, deadline);
    }
    waiting_.erase(entry);
    if (waiting.dropped) return DroppedMeanwhile(key);
    if (is_late && making_.contains(key)) {
      return absl::DeadlineExceededError(absl::StrCat(
          ShardName(key.first, key.second), " is still being made by an earlier call; try again"));
    }
    making_[key] = {generation, memory_need};
  }
  return Making(this, [key](ShardsToCome* shards) { shards->End(key); });
}

void ShardsToCome::End(const Key& key) {
  {
    MutexLock lock(&mutex_);
    making_.erase(key);
  }
  made_.SignalAll();
}

absl::Status ShardsToCome::Check(const Key& key) const {
  MutexLock lock(&mutex_);
  const auto making = making_.find(key);
  if (making == making_.end() || !making->second.dropped) return absl::OkStatus();
  return DroppedMeanwhile(key);
}

void ShardsToCome::Drop(const Key& key, uint64_t generation) {
  MutexLock lock(&mutex_);
  const auto making = making_.find(key);
  if (making != making_.end() && generation >= making->second.generation) {
    making->second.dropped = true;
  }
  const auto [begin, end] = waiting_.equal_range(key);
  for (auto waiting = begin; waiting != end; ++waiting) {
    if (generation >= waiting->second->generation) waiting->second->dropped = true;
  }
  made_.SignalAll();
}

void ShardsToCome::Await(const Key& key, uint64_t generation, uint64_t memory_need) {
  MutexLock lock(&mutex_);
  awaited_[key] = {generation, memory_need};
}

void ShardsToCome::Forget(const Key& key) {
  MutexLock lock(&mutex_);
  awaited_.erase(key);
}

bool ShardsToCome::awaits() const {
  MutexLock lock(&mutex_);
  return !awaited_.empty();
}

absl::Status ShardsToCome::CheckNotOlder(const Key& key, uint64_t generation) const {
  uint64_t newest = 0;
  {
    MutexLock lock(&mutex_);
    const auto awaited = awaited_.find(key);
    if (awaited != awaited_.end()) newest = awaited->second.generation;
    const auto making = making_.find(key);
    if (making != making_.end()) newest = std::max(newest, making->second.generation);
  }
  if (generation >= newest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(ShardName(key.first, key.second),
                                                    " is at generation ", newest,
                                                    ", the request at ", generation));
}

absl::flat_hash_map<ShardsToCome::Key, uint64_t> ShardsToCome::MemoryNeeds() const {
  absl::flat_hash_map<Key, uint64_t> needs;
  MutexLock lock(&mutex_);
  for (const auto& [making, shard] : making_) needs[making] = shard.memory_need;
  for (const auto& [awaited, shard] : awaited_) needs[awaited] = shard.memory_need;
  return needs;
}

}  // namespace millrace::ps
