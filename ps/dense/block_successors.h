// New versions of blocks of which few elements change.
#ifndef MILLRACE_PS_DENSE_BLOCK_SUCCESSORS_H_
#define MILLRACE_PS_DENSE_BLOCK_SUCCESSORS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/wire/rows.h"
#include "ps/block/block.h"

namespace millrace::ps {

// A block never changes once it is published, so a new version of it has its elements anew. Copying
// all of them costs far more than changing a few. But the version before the last one differs from
// the last one in few elements as well: when nobody reads it any more, those are copied into it,
// and it becomes the next version. One such buffer is kept of each block, which is the memory that
// the version being computed takes in any case; and what has changed of late, a small part of it.
//
// Thread-safe. Blocks may outlive it.
class BlockSuccessors {
 public:
  // Of so many blocks; `pool` must outlive it.
  BlockSuccessors(size_t blocks, BlockPool* pool);

  // The contents of `base`, which is block `index` of the newest state, in a block that nobody else
  // has. Stops the process when memory is exhausted.
  std::shared_ptr<Block> Copy(size_t index, const std::shared_ptr<const Block>& base);

  // A buffer for a version that is written as a whole: whatever is in it. nullptr: there is none.
  std::shared_ptr<Block> Spare(size_t index);

  // What to publish in place of `base`: `block`, which Copy made of it. `changed`: the runs of
  // elements in which they differ, and no others. REQUIRES: in the order of publication.
  std::shared_ptr<const Block> Publish(size_t index, const std::shared_ptr<const Block>& base,
                                       std::shared_ptr<Block> block,
                                       std::vector<ElementRange> changed);

  // No version follows: nothing is kept from now on.
  void Stop();

 private:
  class Buffers;

  BlockPool* const pool_;
  const std::shared_ptr<Buffers> buffers_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_BLOCK_SUCCESSORS_H_
