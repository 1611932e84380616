// The sum of a version's contributions, as far as they are there.
#ifndef MILLRACE_PS_DENSE_RUNNING_SUM_H_
#define MILLRACE_PS_DENSE_RUNNING_SUM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/exact_square_sum.h"
#include "common/wire/tensor_codec.h"
#include "ps/block/block.h"
#include "ps/dense/block_layout.h"
#include "ps/dense/push_assembly.h"
#include "ps/dense/staged_update.h"

namespace millrace::ps {

// The gradient of a version is, element by element (the formula is in version_rule.h),
//
//   Begin, Add, Add, ..., AddLast.
//
// Each is called for all pieces of one contribution, by several threads at once if wanted, and the
// next one when the one before is through with all elements. So an element is added to once by each
// contribution, in contribution order, and neither the boundaries of pieces nor the threads can
// show in the result.
class RunningSum {
 public:
  // Of the elements that are pushed. `layout` must outlive it. Stops the process when memory is
  // exhausted.
  RunningSum(const BlockLayout* layout, BlockPool* pool);

  // Takes the first contribution's piece.
  void Begin(const WirePiece& piece);

  // Adds `weight` times the piece.
  void Add(const WirePiece& piece, float weight);

  // The same, divides the sum by `divisor`, and gives it to `update`, which may keep it.
  void AddLast(const WirePiece& piece, float weight, float divisor, StagedUpdate* update);

  // Of the sum divided by `divisor`, in one block: the squares of its elements. Several threads may
  // call these two at once. REQUIRES: the sum is complete; the block is not frozen.
  ExactSquareSum MeanSquares(size_t block, float divisor) const;

  // Gives `update` that, times `factor`. The sum stays as it is.
  void ApplyMean(size_t block, float divisor, float factor, StagedUpdate* update) const;

  // The sum as the pieces of a message, which refer to it. REQUIRES: `sum` does not change any more
  // while they are in use.
  static PushPieces AsPieces(const std::shared_ptr<const RunningSum>& sum);

 private:
  // Calls `visit(run, sums, bytes)` for runs of the piece that lie in one block.
  template <typename Visit>
  void ForEachRun(const WirePiece& piece, const Visit& visit);

  const BlockLayout* const layout_;
  // As the layout's, without slots; nullptr for those that are frozen.
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_RUNNING_SUM_H_
