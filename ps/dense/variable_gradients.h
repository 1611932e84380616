// The gradients of variables that are updated as a whole, while they arrive.
#ifndef MILLRACE_PS_DENSE_VARIABLE_GRADIENTS_H_
#define MILLRACE_PS_DENSE_VARIABLE_GRADIENTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "ps/block/block.h"
#include "ps/dense/block_layout.h"
#include "ps/optimizer/norms.h"

namespace millrace::ps {

// Gathers gradients in blocks like the layout's, and tells who brings the last of a block, and who
// measures the last of a variable, which is a slice. Thread-safe: runs may come in any order, each
// element once.
class VariableGradients {
 public:
  // Both must outlive it. A call that needs memory stops the process when there is none.
  VariableGradients(const BlockLayout* layout, BlockPool* pool);

  // Takes a run of a block: as bytes, which are copied, or as the block that has it, where it stays
  // as it is. A block's runs all come in the same way. Returns whether they are all there now: then
  // it is the caller that measures the block.
  bool Bring(const BlockLayout::Run& run, const char* gradient) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Bring(const BlockLayout::Run& run, std::shared_ptr<Block> gradient)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // REQUIRES: all of the block is there, and its variable was not released.
  const char* Gradient(size_t block) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The first pass over a block is made. Returns whether it was the last one of its variable: then
  // it is the caller that goes on with the variable.
  bool Measured(size_t block, const SquaredNorms& norms);

  // The sum of what was measured. REQUIRES: Measured has returned true for the variable.
  SquaredNorms NormsOf(uint32_t slice) const;

  // The variable is updated. Its gradient goes.
  void Release(uint32_t slice) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Released(uint32_t slice) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct BlockState {
    std::atomic<size_t> missing{0};  // Elements.
    SquaredNorms norms;              // Written by who measures the block.
  };
  struct VariableState {
    std::atomic<size_t> missing{0};  // Blocks that are not measured.
    bool released = false;           // Guarded by mutex_.
  };

  bool Arrived(const BlockLayout::Run& run);

  const BlockLayout* const layout_;
  BlockPool* const pool_;
  std::vector<BlockState> blocks_;
  std::vector<VariableState> variables_;  // By slice.
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Block>> gradients_ ABSL_GUARDED_BY(mutex_);  // By block.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_VARIABLE_GRADIENTS_H_
