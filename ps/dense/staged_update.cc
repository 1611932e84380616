#include "ps/dense/staged_update.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace millrace::ps {
namespace {

// More than any optimizer has, with the values.
constexpr int kMaxArrays = 8;

// Replaces a block by a copy in the arena, where that has room.
void MoveToArena(BlockPool* pool, std::shared_ptr<const Block>* block) {
  const Block& from = **block;
  std::shared_ptr<Block> to = pool->AllocateInArena(from.elements(), from.slots());
  if (to == nullptr) return;
  for (int i = 0; i <= from.slots(); ++i) {
    std::copy_n(from.array(i), from.elements(), to->array(i));
  }
  *block = std::move(to);
}

}  // namespace

StagedUpdate::StagedUpdate(const UpdateTools& tools, StatePtr base)
    : tools_(tools), base_(std::move(base)), blocks_(base_->blocks.size()) {
  CHECK_LT(tools_.optimizer->slots(), kMaxArrays);
}

Block* StagedUpdate::MutableBlock(size_t index) {
  MutexLock lock(&mutex_);
  std::shared_ptr<Block>& block = blocks_[index];
  if (block == nullptr) {
    const Block& old = *base_->blocks[index];
    block = tools_.pool->Allocate(old.elements(), old.slots());
    CHECK(block != nullptr) << "out of memory for a block of " << old.elements() << " elements";
  }
  return block.get();
}

const Optimizer& StagedUpdate::RuleOf(const BlockLayout::Run& run) const {
  if (tools_.rules == nullptr) return *tools_.optimizer;
  const std::unique_ptr<Optimizer>& own = (*tools_.rules)[tools_.layout->blocks()[run.block].slice];
  return own == nullptr ? *tools_.optimizer : *own;
}

void StagedUpdate::Apply(const BlockLayout::Run& run, const char* gradient) {
  const Block& from = *base_->blocks[run.block];
  Block& to = *MutableBlock(run.block);
  const float* in[kMaxArrays];
  float* out[kMaxArrays];
  for (int i = 0; i <= from.slots(); ++i) {
    in[i] = from.array(i) + run.offset;
    out[i] = to.array(i) + run.offset;
  }
  RuleOf(run).Apply(base_->version + 1, gradient, run.count, in, out);
}

void StagedUpdate::Apply(const WirePiece& piece) {
  piece.data.ForEachRun([&](size_t offset, const char* bytes, size_t count) {
    while (count > 0) {
      const BlockLayout::Run run =
          tools_.layout->FirstRun(piece.slice, piece.offset + offset, count);
      Apply(run, bytes);
      offset += run.count;
      bytes += run.count * sizeof(float);
      count -= run.count;
    }
  });
}

StatePtr StagedUpdate::Finish(absl::Span<const uint64_t> steps) {
  auto state = std::make_shared<ShardState>();
  state->version = base_->version + 1;
  state->applied = base_->applied;
  for (uint64_t step : steps) {
    CHECK(state->applied.Insert(step)) << "step " << step << " was applied twice";
  }
  MutexLock lock(&mutex_);
  state->blocks.reserve(blocks_.size());
  bool tried = false;  // To move a block: one at a time, since the shard is locked meanwhile.
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (tools_.layout->blocks()[i].frozen) {
      state->blocks.push_back(base_->blocks[i]);
      if (base_->blocks[i]->place() == 0 && !std::exchange(tried, true)) {
        MoveToArena(tools_.pool, &state->blocks.back());
      }
      continue;
    }
    CHECK(blocks_[i] != nullptr) << "an update without all blocks";
    state->blocks.push_back(std::move(blocks_[i]));
  }
  return state;
}

}  // namespace millrace::ps
