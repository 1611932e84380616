#include "ps/block/block.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "common/mutex.h"
#include "ps/block/arena.h"
#include "ps/block/recent_peak.h"

namespace millrace::ps {
namespace {

constexpr size_t kFloatsPerLine = kBufferAlignment / sizeof(float);

size_t Stride(size_t elements) {
  return (elements + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

size_t BufferBytes(size_t elements, int slots) {
  return Stride(elements) * static_cast<size_t>(slots + 1) * sizeof(float);
}

}  // namespace

Block::Block(float* data, uint64_t place, size_t elements, int slots)
    : data_(data), place_(place), elements_(elements), stride_(Stride(elements)), slots_(slots) {}

// The buffer is the pool's: see Buffers::Release.
Block::~Block() = default;

// Shared by the pool and its living blocks. Ordinary memory is managed here.
class BlockPool::Buffers {
 public:
  Buffers(std::shared_ptr<Arena> arena, Clock* clock) : arena_(std::move(arena)), clock_(clock) {}

  ~Buffers() {
    for (auto& [bytes, size] : sizes_) {
      for (float* buffer : size.idle) std::free(buffer);
    }
  }

  Arena* arena() const { return arena_.get(); }  // Or nullptr.

  ArenaBuffer Take(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (arena_ != nullptr) {
      const ArenaBuffer buffer = arena_->Take(bytes);
      if (buffer.data != nullptr) return buffer;
    }
    return {TakeOrdinary(bytes), /*place=*/0};
  }

  void Release(float* data, uint64_t place, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (place != 0) {
      arena_->Release(place);
    } else {
      ReleaseOrdinary(data, bytes);
    }
  }

  size_t idle_bytes() ABSL_LOCKS_EXCLUDED(mutex_) {
    const size_t in_arena = arena_ == nullptr ? 0 : arena_->idle_bytes();
    MutexLock lock(&mutex_);
    return idle_bytes_ + in_arena;
  }

  void Trim() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (arena_ != nullptr) arena_->Trim();
    std::vector<float*> surplus;
    {
      MutexLock lock(&mutex_);
      for (auto& [bytes, size] : sizes_) size.peak.Forget();  // What lives now may be about to go.
      // A window that begins later would begin with what lives now.
      window_.Restart(clock_->Now());
      ShrinkAll(&surplus);
    }
    Free(surplus);
  }

  void GiveBackSurplus() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (arena_ != nullptr) arena_->GiveBackSurplus();
    std::vector<float*> surplus;
    {
      MutexLock lock(&mutex_);
      if (RollWindow()) ShrinkAll(&surplus);
    }
    Free(surplus);
  }

 private:
  // The buffers of one size. Sizes are counted apart, so that what a job has left does not stand
  // for what another one needs.
  struct Size {
    size_t living = 0;
    std::vector<float*> idle;
    RecentPeak peak;  // Of `living`.
  };

  static void Free(const std::vector<float*>& buffers) {
    for (float* buffer : buffers) std::free(buffer);
  }

  float* TakeOrdinary(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      Size& size = sizes_[bytes];
      size.peak.Note(++size.living);
      if (!size.idle.empty()) {
        float* buffer = size.idle.back();
        size.idle.pop_back();
        idle_bytes_ -= bytes;
        return buffer;
      }
    }
    void* buffer = std::aligned_alloc(kBufferAlignment, bytes);
    if (buffer == nullptr) {
      MutexLock lock(&mutex_);
      --sizes_[bytes].living;
    }
    return static_cast<float*>(buffer);
  }

  void ReleaseOrdinary(float* buffer, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<float*> surplus;
    {
      MutexLock lock(&mutex_);
      Size& size = sizes_[bytes];
      --size.living;
      size.idle.push_back(buffer);
      idle_bytes_ += bytes;
      if (RollWindow()) ShrinkAll(&surplus);
      Shrink(bytes, &size, &surplus);
    }
    Free(surplus);
  }

  bool RollWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!window_.Roll(clock_->Now())) return false;
    for (auto& [bytes, size] : sizes_) size.peak.Roll(size.living);
    return true;
  }

  // Moves to `surplus` what is too many.
  void Shrink(size_t bytes, Size* size, std::vector<float*>* surplus)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (idle_bytes_ > kSpareBytes && size->idle.size() > size->living &&
           size->idle.size() + size->living > size->peak.most()) {
      surplus->push_back(size->idle.back());
      size->idle.pop_back();
      idle_bytes_ -= bytes;
    }
  }

  void ShrinkAll(std::vector<float*>* surplus) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto& [bytes, size] : sizes_) Shrink(bytes, &size, surplus);
  }

  const std::shared_ptr<Arena> arena_;  // nullptr: none.
  Clock* const clock_;
  Mutex mutex_;
  size_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  PeakWindow window_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<size_t, Size> sizes_ ABSL_GUARDED_BY(mutex_);  // By bytes.
};

BlockPool::BlockPool(std::shared_ptr<Arena> arena, Clock* clock)
    : buffers_(std::make_shared<Buffers>(std::move(arena), clock)) {}

std::shared_ptr<Block> BlockPool::Allocate(size_t elements, int slots) {
  const ArenaBuffer buffer = buffers_->Take(BufferBytes(elements, slots));
  if (buffer.data == nullptr) return nullptr;
  return MakeBlock(buffer.data, buffer.place, elements, slots);
}

std::shared_ptr<Block> BlockPool::AllocateInArena(size_t elements, int slots) {
  if (buffers_->arena() == nullptr) return nullptr;
  const ArenaBuffer buffer = buffers_->arena()->Take(BufferBytes(elements, slots));
  if (buffer.data == nullptr) return nullptr;
  return MakeBlock(buffer.data, buffer.place, elements, slots);
}

std::shared_ptr<Block> BlockPool::Adopt(uint64_t place, size_t elements, int slots) {
  if (buffers_->arena() == nullptr) return nullptr;
  const ArenaBuffer buffer = buffers_->arena()->Adopt(place, BufferBytes(elements, slots));
  if (buffer.data == nullptr) return nullptr;
  return MakeBlock(buffer.data, place, elements, slots);
}

std::shared_ptr<Block> BlockPool::MakeBlock(float* data, uint64_t place, size_t elements,
                                            int slots) {
  const size_t bytes = BufferBytes(elements, slots);
  return std::shared_ptr<Block>(new Block(data, place, elements, slots),
                                [buffers = buffers_, bytes](Block* block) {
                                  buffers->Release(block->data_, block->place_, bytes);
                                  delete block;
                                });
}

size_t BlockPool::idle_bytes() const { return buffers_->idle_bytes(); }

void BlockPool::Trim() { buffers_->Trim(); }

void BlockPool::GiveBackSurplus() { buffers_->GiveBackSurplus(); }

}  // namespace millrace::ps
