#include "ps/block/block.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "common/mutex.h"
#include "ps/block/arena.h"

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
  explicit Buffers(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

  ~Buffers() {
    for (auto& [bytes, buffers] : idle_) {
      for (float* buffer : buffers) std::free(buffer);
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

 private:
  float* TakeOrdinary(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      living_bytes_ += bytes;
      std::vector<float*>& buffers = idle_[bytes];
      if (!buffers.empty()) {
        float* buffer = buffers.back();
        buffers.pop_back();
        idle_bytes_ -= bytes;
        return buffer;
      }
    }
    void* buffer = std::aligned_alloc(kBufferAlignment, bytes);
    if (buffer == nullptr) {
      MutexLock lock(&mutex_);
      living_bytes_ -= bytes;
    }
    return static_cast<float*>(buffer);
  }

  void ReleaseOrdinary(float* buffer, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<float*> surplus;
    {
      MutexLock lock(&mutex_);
      living_bytes_ -= bytes;
      idle_bytes_ += bytes;
      idle_[bytes].push_back(buffer);
      for (auto it = idle_.rbegin(); idle_bytes_ > living_bytes_ + kSpareBytes; ++it) {
        Shrink(it->first, &it->second, &surplus);
      }
    }
    for (float* each : surplus) std::free(each);
  }

  // Moves buffers of one size to `surplus`, as many as are too many.
  void Shrink(size_t bytes, std::vector<float*>* buffers, std::vector<float*>* surplus)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!buffers->empty() && idle_bytes_ > living_bytes_ + kSpareBytes) {
      surplus->push_back(buffers->back());
      buffers->pop_back();
      idle_bytes_ -= bytes;
    }
  }

  const std::shared_ptr<Arena> arena_;  // nullptr: none.
  Mutex mutex_;
  size_t living_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By size in bytes.
  absl::btree_map<size_t, std::vector<float*>> idle_ ABSL_GUARDED_BY(mutex_);
};

BlockPool::BlockPool(std::shared_ptr<Arena> arena)
    : buffers_(std::make_shared<Buffers>(std::move(arena))) {}

std::shared_ptr<Block> BlockPool::Allocate(size_t elements, int slots) {
  const ArenaBuffer buffer = buffers_->Take(BufferBytes(elements, slots));
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

void BlockPool::Trim() {
  if (buffers_->arena() != nullptr) buffers_->arena()->Trim();
}

void BlockPool::GiveBackSurplus() {
  if (buffers_->arena() != nullptr) buffers_->arena()->GiveBackSurplus();
}

}  // namespace millrace::ps
