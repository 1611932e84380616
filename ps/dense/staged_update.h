// The next state of a shard while it is computed, which nobody sees yet.
#ifndef MILLRACE_PS_DENSE_STAGED_UPDATE_H_
#define MILLRACE_PS_DENSE_STAGED_UPDATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "common/wire/tensor_codec.h"
#include "ps/block/block.h"
#include "ps/dense/block_layout.h"
#include "ps/dense/block_successors.h"
#include "ps/dense/shard_state.h"
#include "ps/dense/variable_gradients.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// By slice: its own rule, or nullptr where the shard's optimizer applies.
using SliceRules = std::vector<std::unique_ptr<Optimizer>>;

// What an update needs of its shard; outlives it.
struct UpdateTools {
  const BlockLayout* layout = nullptr;
  const Optimizer* optimizer = nullptr;
  BlockPool* pool = nullptr;
  const SliceRules* rules = nullptr;  // nullptr: the optimizer is every slice's.
  BlockSuccessors* successors = nullptr;
};

// Writes new versions of `base`'s blocks into buffers of its own. Dropping it leaves no trace. The
// new state has the frozen blocks of `base` as they are: both refer to the same ones. But one that
// was made while the arena was full moves there when it has room, a block with each version: a
// single one in ordinary memory keeps its shard from outliving the process.
//
// Where the optimizer has passes over whole variables, a slice is one. Its gradient is gathered: a
// block is measured by the thread that brought the last of it, and what follows is done by the one
// that measured the last block. The others do not wait for that. Norms are summed up by place
// (norms.h), so neither pieces nor threads show in the result.
//
// Of a piece with rows only these are updated, where the optimizer keeps an element that has no
// gradient: the rest of a block with rows comes from BlockSuccessors, and a block without one stays
// what it is. Other optimizers get the piece as a gradient of all its elements.
//
// Apply may run on several threads at once, for different elements: they write to different places,
// and only the list of blocks is locked. Whoever calls Finish has to know that all of them have
// returned (Shard counts their elements under its lock).
class StagedUpdate {
 public:
  StagedUpdate(const UpdateTools& tools, StatePtr base);

  // Applies a part of what is pushed: of the gradient, or of the statistic of a slice that is a
  // moving average. REQUIRES: the layout has its place, not a frozen one; once for each element.
  void Apply(const WirePiece& piece);
  void Apply(const BlockLayout::Run& run, const char* gradient);
  // The same, as the values of a block where the run stays as it is from now on: so it need not be
  // copied. All runs of a block come so, or none.
  void Apply(const BlockLayout::Run& run, std::shared_ptr<Block> gradient);

  // What the new state says of it. Before Finish.
  void set_gradient_norm(double norm) { gradient_norm_ = norm; }

  // The state with `steps` applied. REQUIRES: every element that is pushed was given to Apply;
  // called once.
  StatePtr Finish(absl::Span<const uint64_t> steps);

 private:
  // The arrays of a run, before and after.
  struct Arrays;
  // What a piece with rows has of a block.
  struct BlockRows;

  const Optimizer& RuleOf(size_t block) const;
  // The new version of a block; made when it is first asked for.
  Block* MutableBlock(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  Arrays ArraysOf(const BlockLayout::Run& run);
  Arrays ArraysOf(const BlockLayout::Run& run, Block* to) const;
  void ApplyRows(const WirePiece& piece);
  void ApplyRows(const BlockRows& rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // As a gradient of all elements of the block.
  void ApplySpread(const BlockRows& rows);
  // And of no other elements.
  void UpdateRows(const BlockRows& rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // All of a block's gradient is there.
  void MeasureFirst(size_t block);
  SquaredNorms Measure(int pass, const VariableFacts& variable, size_t block);
  // All blocks of a variable are measured once.
  void UpdateVariable(uint32_t slice);

  const UpdateTools tools_;
  const StatePtr base_;
  const std::unique_ptr<VariableGradients> gradients_;  // nullptr: the optimizer has no passes.
  absl::optional<double> gradient_norm_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Block>> blocks_ ABSL_GUARDED_BY(mutex_);
  // By block: the runs that rows have changed. Of one without any, an empty list.
  absl::flat_hash_map<size_t, std::vector<ElementRange>> rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_STAGED_UPDATE_H_
