// A published block is a reference whose deleter brings the buffer back here, with the number of
// the version that is in it: so the thread that takes it sees that all who read it are through, as
// the deleter runs when the last of them has let go.
//
// Versions of a block are numbered for as long as each was made of the one before. What is
// published otherwise (a gradient of all elements, an earlier state that the shard went back to) is
// a base that is not the newest one here, and then all begins anew: buffers that come back later
// have another history, and are not kept.
#include "ps/dense/block_successors.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>

#include "common/mutex.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// Changes that are remembered of a block: so many versions at most,
constexpr size_t kMaxChanges = 8;
// and what costs as much to copy as this part of its elements. With more, copying all of it is as
// good. A run of elements costs as much as so many more, in time and, with 16 bytes, in memory: so
// what is remembered takes a sixteenth of the values at most.
constexpr size_t kMaxChangedPart = 4;
constexpr uint64_t kCostOfRun = 16;

using Runs = std::shared_ptr<const std::vector<ElementRange>>;

void CopyElements(const Block& from, const ElementRange& run, Block* to) {
  for (int i = 0; i <= from.slots(); ++i) {
    std::copy_n(from.array(i) + run.begin, run.count, to->array(i) + run.begin);
  }
}

uint64_t CostOf(const std::vector<ElementRange>& runs) {
  uint64_t cost = runs.size() * kCostOfRun;
  for (const ElementRange& run : runs) cost += run.count;
  return cost;
}

}  // namespace

class BlockSuccessors::Buffers {
 public:
  explicit Buffers(size_t blocks) : histories_(blocks) {}

  // An earlier version's buffer, and the runs that make `base` of it when they are copied; nullptr:
  // there is none.
  struct Earlier {
    std::shared_ptr<Block> block;
    std::vector<Runs> changed;
  };
  Earlier Take(size_t index, const Block* base) {
    Earlier earlier;
    MutexLock lock(&mutex_);
    History& history = histories_[index];
    if (history.newest != base || history.idle == nullptr) return earlier;
    earlier.block = std::move(history.idle);
    for (uint64_t version = history.idle_version; version < history.version; ++version) {
      earlier.changed.push_back(history.ChangeAfter(version));
    }
    return earlier;
  }

  std::shared_ptr<Block> TakeIdle(size_t index) {
    if (!published_.load(std::memory_order_relaxed)) return nullptr;
    MutexLock lock(&mutex_);
    return std::move(histories_[index].idle);
  }

  // Which version of which history.
  struct Place {
    size_t index = 0;
    uint64_t history = 0;
    uint64_t version = 0;
  };
  Place Published(size_t index, const Block* base, const Block* block, Runs changed) {
    published_.store(true, std::memory_order_relaxed);
    std::shared_ptr<Block> dropped;  // Goes without the lock.
    MutexLock lock(&mutex_);
    History& history = histories_[index];
    if (history.newest != base) {
      dropped = std::move(history.idle);
      const uint64_t number = history.number + 1;
      history = History();
      history.number = number;
    }
    history.newest = block;
    ++history.version;
    history.cost += CostOf(*changed);
    history.changes.push_back(std::move(changed));
    while (!history.changes.empty() && (history.changes.size() > kMaxChanges ||
                                        history.cost > block->elements() / kMaxChangedPart)) {
      history.cost -= CostOf(*history.changes.front());
      history.changes.pop_front();
    }
    if (!history.Reaches(history.idle_version)) dropped = std::move(history.idle);
    return {index, history.number, history.version};
  }

  // Nobody reads it any more.
  void Return(const Place& place, std::shared_ptr<Block> block) {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    History& history = histories_[place.index];
    if (history.number != place.history || !history.Reaches(place.version)) return;
    if (history.idle != nullptr && history.idle_version > place.version) return;
    std::swap(history.idle, block);
    history.idle_version = place.version;
  }

  void Stop() {
    std::vector<std::shared_ptr<Block>> dropped;
    MutexLock lock(&mutex_);
    stopped_ = true;
    for (History& history : histories_) dropped.push_back(std::move(history.idle));
  }

 private:
  struct History {
    uint64_t number = 0;            // How many there were before.
    uint64_t version = 0;           // Of `newest`; 0: that of its first base.
    const Block* newest = nullptr;  // Not owned: compared with others only.
    std::deque<Runs> changes;       // Those that led to the newest versions.
    uint64_t cost = 0;              // Of all of them.
    std::shared_ptr<Block> idle;
    uint64_t idle_version = 0;

    // Whether it is known what has changed since a version.
    bool Reaches(uint64_t since) const { return version - since <= changes.size(); }
    // REQUIRES: Reaches(since), and a later version there is.
    const Runs& ChangeAfter(uint64_t since) const {
      return changes[changes.size() - (version - since)];
    }
  };

  std::atomic<bool> published_{false};  // Something was: before, nothing is idle.
  Mutex mutex_;
  std::vector<History> histories_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

void BlockSuccessors::Stop() { buffers_->Stop(); }

BlockSuccessors::BlockSuccessors(size_t blocks, BlockPool* pool)
    : pool_(pool), buffers_(std::make_shared<Buffers>(blocks)) {}

std::shared_ptr<Block> BlockSuccessors::Copy(size_t index,
                                             const std::shared_ptr<const Block>& base) {
  Buffers::Earlier earlier = buffers_->Take(index, base.get());
  std::shared_ptr<Block> fresh;
  // What was made while the arena was full moves there when it has room.
  if (earlier.block != nullptr && earlier.block->place() == 0) {
    fresh = pool_->AllocateInArena(base->elements(), base->slots());
  }
  if (earlier.block != nullptr && fresh == nullptr) {
    for (const Runs& runs : earlier.changed) {
      for (const ElementRange& run : *runs) CopyElements(*base, run, earlier.block.get());
    }
    return std::move(earlier.block);
  }
  if (fresh == nullptr) fresh = pool_->Allocate(base->elements(), base->slots());
  CHECK(fresh != nullptr) << "out of memory for a block of " << base->elements() << " elements";
  CopyElements(*base, {0, base->elements()}, fresh.get());
  return fresh;
}

std::shared_ptr<Block> BlockSuccessors::Spare(size_t index) {
  std::shared_ptr<Block> block = buffers_->TakeIdle(index);
  // What was made while the arena was full is to move there when it has room.
  return block == nullptr || block->place() == 0 ? nullptr : block;
}

std::shared_ptr<const Block> BlockSuccessors::Publish(size_t index,
                                                      const std::shared_ptr<const Block>& base,
                                                      std::shared_ptr<Block> block,
                                                      std::vector<ElementRange> changed) {
  const Buffers::Place place =
      buffers_->Published(index, base.get(), block.get(),
                          std::make_shared<const std::vector<ElementRange>>(std::move(changed)));
  const Block* const published = block.get();
  return std::shared_ptr<const Block>(
      published, [place, block = std::move(block),
                  buffers = std::weak_ptr<Buffers>(buffers_)](const Block* /*published*/) mutable {
        const std::shared_ptr<Buffers> there = buffers.lock();
        if (there != nullptr) there->Return(place, std::move(block));
      });
}

}  // namespace millrace::ps
