// Blocks: the unit in which values and optimizer slots are stored, replaced and shared.
#ifndef MILLRACE_PS_BLOCK_BLOCK_H_
#define MILLRACE_PS_BLOCK_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "common/clock.h"

namespace millrace::ps {

class Arena;

// `elements` values and, after them, the arrays of their optimizer slots, each 64-byte aligned, in
// one buffer. Written by its maker only; once published it is shared as `const` and never changes.
class Block {
 public:
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  size_t elements() const { return elements_; }
  int slots() const { return slots_; }

  // Where it is in the pool's arena; 0: in ordinary memory, which goes with the process.
  uint64_t place() const { return place_; }

  // Array 0 is the values, array i the i-th slot. REQUIRES: 0 <= index <= slots().
  const float* array(int index) const { return data_ + index * stride_; }
  float* array(int index) { return data_ + index * stride_; }

  absl::Span<const float> values() const { return absl::MakeConstSpan(data_, elements_); }

 private:
  friend class BlockPool;
  Block(float* data, uint64_t place, size_t elements, int slots);

  float* const data_;
  const uint64_t place_;
  const size_t elements_;
  const size_t stride_;  // In floats, from one array to the next.
  const int slots_;
};

// Makes blocks, and uses their buffers again when the last reference is gone: fresh pages cost more
// than the arithmetic on them. Keeps as many buffers of a size as live, as lived of late
// (RecentPeak), and a little more; in an arena whole segments. Blocks may outlive the pool.
// Thread-safe.
class BlockPool {
 public:
  // Blocks are in the arena as long as it has room. nullptr: in ordinary memory.
  explicit BlockPool(std::shared_ptr<Arena> arena = nullptr, Clock* clock = Clock::Real());

  // A block with undefined contents, or nullptr when memory is exhausted.
  std::shared_ptr<Block> Allocate(size_t elements, int slots);

  // The same, but in the arena only: nullptr where it is full, or there is none.
  std::shared_ptr<Block> AllocateInArena(size_t elements, int slots);

  // The block that an earlier process had at this place of the arena, or nullptr: there can be no
  // such block there, or it has been adopted.
  std::shared_ptr<Block> Adopt(uint64_t place, size_t elements, int slots);

  // Of buffers that wait to be used again.
  size_t idle_bytes() const;

  // Forgets what was needed of late, which otherwise stays: fewer blocks are needed from now on,
  // such as when a shard goes.
  void Trim();

  // Gives back what is not needed any more. To be called every now and then: otherwise that waits
  // until the next block goes.
  void GiveBackSurplus();

 private:
  class Buffers;
  std::shared_ptr<Block> MakeBlock(float* data, uint64_t place, size_t elements, int slots);

  const std::shared_ptr<Buffers> buffers_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_BLOCK_BLOCK_H_
