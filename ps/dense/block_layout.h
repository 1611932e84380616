// Where the elements of a shard are: its slices, one after the other, divided into blocks.
#ifndef MILLRACE_PS_DENSE_BLOCK_LAYOUT_H_
#define MILLRACE_PS_DENSE_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/rows.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"

namespace millrace::ps {

// Immutable and thread-safe.
class BlockLayout {
 public:
  struct BlockPlace {
    uint32_t slice = 0;
    uint64_t offset = 0;  // In elements, from the slice's first.
    size_t elements = 0;  // At most kBlockElements.
    bool frozen = false;  // Its slice is: it never changes, and nothing of it is pushed.
  };

  // A run of elements within one block.
  struct Run {
    size_t block = 0;
    size_t offset = 0;  // In elements, from the block's first.
    size_t count = 0;
  };

  // Blocks [begin, end).
  struct BlockRange {
    size_t begin = 0;
    size_t end = 0;
  };

  // INVALID_ARGUMENT: no slice, an empty one, or more elements than a shard can have.
  static absl::StatusOr<BlockLayout> Create(const ShardSpec& spec);

  uint64_t elements() const { return elements_; }
  // Of those, the ones that a push brings: in slices that are not frozen.
  uint64_t pushed_elements() const { return pushed_elements_; }
  const std::vector<BlockPlace>& blocks() const { return blocks_; }
  size_t slices() const { return slices_.size(); }
  // REQUIRES: slice < slices().
  BlockRange BlocksOf(uint32_t slice) const {
    const bool last = slice + 1 == slices_.size();
    return {slices_[slice].first_block, last ? blocks_.size() : slices_[slice + 1].first_block};
  }

  // The place of a slice's element, counted in elements that are pushed from the shard's first.
  // INVALID_ARGUMENT: the shard has no such slice, or the slice no `count` elements from there on,
  // or it is frozen.
  absl::StatusOr<uint64_t> Locate(uint32_t slice, uint64_t offset, uint64_t count) const;

  // Where elements of a slice are in its variable. REQUIRES: Locate() accepts them.
  ElementRange InVariable(uint32_t slice, uint64_t offset, uint64_t count) const {
    return {slices_[slice].in_variable + offset, count};
  }

  // The first run of the elements [offset, offset + count) of a slice: as many as are in one block.
  // REQUIRES: Locate() accepts them; count > 0.
  Run FirstRun(uint32_t slice, uint64_t offset, size_t count) const {
    const Slice& place = slices_[slice];
    const size_t in_block = offset % kBlockElements;
    const size_t rest = kBlockElements - in_block;
    return {place.first_block + static_cast<size_t>(offset / kBlockElements), in_block,
            count < rest ? count : rest};
  }

 private:
  struct Slice {
    uint64_t begin = 0;   // From the shard's first element, counting those that are pushed.
    uint64_t length = 0;  // In elements.
    size_t first_block = 0;
    bool frozen = false;
    uint64_t in_variable = 0;  // Of its first element.
  };

  BlockLayout() = default;

  uint64_t elements_ = 0;
  uint64_t pushed_elements_ = 0;
  std::vector<Slice> slices_;
  std::vector<BlockPlace> blocks_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_BLOCK_LAYOUT_H_
