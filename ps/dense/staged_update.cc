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

struct StagedUpdate::Arrays {
  const float* in[kMaxArrays];
  float* out[kMaxArrays];

  ElementRun Run(const char* gradient, size_t count) const { return {gradient, count, in, out}; }
};

struct StagedUpdate::BlockRows {
  size_t block = 0;
  size_t elements = 0;              // Of the block.
  std::vector<ElementRange> runs;   // That are given, from the block's first element.
  const float* gradient = nullptr;  // Of these, one after the other.
};

StagedUpdate::StagedUpdate(const UpdateTools& tools, StatePtr base)
    : tools_(tools),
      base_(std::move(base)),
      gradients_(tools.optimizer->passes() == 0
                     ? nullptr
                     : std::make_unique<VariableGradients>(tools.layout, tools.pool)),
      blocks_(base_->blocks.size()) {
  CHECK_LT(tools_.optimizer->slots(), kMaxArrays);
}

Block* StagedUpdate::MutableBlock(size_t index) {
  MutexLock lock(&mutex_);
  std::shared_ptr<Block>& block = blocks_[index];
  if (block == nullptr) {
    const Block& old = *base_->blocks[index];
    if (tools_.successors != nullptr) block = tools_.successors->Spare(index);
    if (block == nullptr) block = tools_.pool->Allocate(old.elements(), old.slots());
    CHECK(block != nullptr) << "out of memory for a block of " << old.elements() << " elements";
  }
  return block.get();
}

const Optimizer& StagedUpdate::RuleOf(size_t block) const {
  if (tools_.rules == nullptr) return *tools_.optimizer;
  const std::unique_ptr<Optimizer>& own = (*tools_.rules)[tools_.layout->blocks()[block].slice];
  return own == nullptr ? *tools_.optimizer : *own;
}

StagedUpdate::Arrays StagedUpdate::ArraysOf(const BlockLayout::Run& run) {
  return ArraysOf(run, MutableBlock(run.block));
}

StagedUpdate::Arrays StagedUpdate::ArraysOf(const BlockLayout::Run& run, Block* to) const {
  const Block& from = *base_->blocks[run.block];
  Arrays arrays;
  for (int i = 0; i <= from.slots(); ++i) {
    arrays.in[i] = from.array(i) + run.offset;
    arrays.out[i] = to->array(i) + run.offset;
  }
  return arrays;
}

void StagedUpdate::Apply(const BlockLayout::Run& run, const char* gradient) {
  const Optimizer& rule = RuleOf(run.block);
  if (rule.passes() > 0) {
    if (gradients_->Bring(run, gradient)) MeasureFirst(run.block);
    return;
  }
  const Arrays arrays = ArraysOf(run);
  rule.Apply(base_->version + 1, gradient, run.count, arrays.in, arrays.out);
}

void StagedUpdate::Apply(const BlockLayout::Run& run, std::shared_ptr<Block> gradient) {
  if (RuleOf(run.block).passes() > 0) {
    if (gradients_->Bring(run, std::move(gradient))) MeasureFirst(run.block);
    return;
  }
  Apply(run, reinterpret_cast<const char*>(gradient->array(0) + run.offset));
}

void StagedUpdate::MeasureFirst(size_t block) {
  const VariableFacts variable = {base_->version + 1, {}};
  if (!gradients_->Measured(block, Measure(/*pass=*/0, variable, block))) return;
  UpdateVariable(tools_.layout->blocks()[block].slice);
}

SquaredNorms StagedUpdate::Measure(int pass, const VariableFacts& variable, size_t block) {
  const size_t count = tools_.layout->blocks()[block].elements;
  const Arrays arrays = ArraysOf({block, 0, count});
  NormSums sums;
  RuleOf(block).Measure(pass, variable, arrays.Run(gradients_->Gradient(block), count), &sums);
  return sums.Totals();
}

void StagedUpdate::UpdateVariable(uint32_t slice) {
  const BlockLayout::BlockRange blocks = tools_.layout->BlocksOf(slice);
  const Optimizer& rule = RuleOf(blocks.begin);
  VariableFacts variable = {base_->version + 1, gradients_->NormsOf(slice)};
  for (int pass = 1; pass < rule.passes(); ++pass) {
    SquaredNorms norms;
    for (size_t i = blocks.begin; i < blocks.end; ++i) norms.Add(Measure(pass, variable, i));
    variable.norms.Add(norms);
  }
  for (size_t i = blocks.begin; i < blocks.end; ++i) {
    const size_t count = tools_.layout->blocks()[i].elements;
    const Arrays arrays = ArraysOf({i, 0, count});
    rule.ApplyMeasured(variable, arrays.Run(gradients_->Gradient(i), count));
  }
  gradients_->Release(slice);
}

void StagedUpdate::ApplyRows(const WirePiece& piece) {
  std::vector<float> gradient(piece.data.size());
  piece.data.CopyTo(absl::MakeSpan(gradient));
  const uint64_t width = piece.rows->width();
  const float* next = gradient.data();
  for (uint64_t done = 0; done < piece.elements();) {
    const BlockLayout::Run block =
        tools_.layout->FirstRun(piece.slice, piece.offset + done, piece.elements() - done);
    const ElementRange range =
        tools_.layout->InVariable(piece.slice, piece.offset + done, block.count);
    const BlockRows rows = {block.block, block.count,
                            RunsOf(RowsIn(RowsOf(*piece.rows), width, range), width, range), next};
    ApplyRows(rows);
    for (const ElementRange& run : rows.runs) next += run.count;
    done += block.count;
  }
}

void StagedUpdate::ApplyRows(const BlockRows& rows) {
  const Optimizer& rule = RuleOf(rows.block);
  if (rule.passes() > 0 || !rule.keeps_without_gradient()) return ApplySpread(rows);
  if (!rows.runs.empty()) return UpdateRows(rows);
  MutexLock lock(&mutex_);
  rows_[rows.block] = {};
}

void StagedUpdate::ApplySpread(const BlockRows& rows) {
  std::vector<float> gradient(rows.elements);
  CopyToRuns(rows.gradient, rows.runs, sizeof(float), gradient.data());
  Apply(BlockLayout::Run{rows.block, 0, rows.elements},
        reinterpret_cast<const char*>(gradient.data()));
}

void StagedUpdate::UpdateRows(const BlockRows& rows) {
  const std::shared_ptr<Block> block =
      tools_.successors->Copy(rows.block, base_->blocks[rows.block]);
  const Optimizer& rule = RuleOf(rows.block);
  const float* next = rows.gradient;
  for (const ElementRange& run : rows.runs) {
    const Arrays arrays = ArraysOf({rows.block, run.begin, run.count}, block.get());
    rule.Apply(base_->version + 1, reinterpret_cast<const char*>(next), run.count, arrays.in,
               arrays.out);
    next += run.count;
  }
  MutexLock lock(&mutex_);
  blocks_[rows.block] = block;
  rows_[rows.block] = rows.runs;
}

void StagedUpdate::Apply(const WirePiece& piece) {
  if (piece.rows != nullptr) return ApplyRows(piece);
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
  state->gradient_norm = gradient_norm_;
  state->applied = base_->applied;
  for (uint64_t step : steps) {
    CHECK(state->applied.Insert(step)) << "step " << step << " was applied twice";
  }
  MutexLock lock(&mutex_);
  state->blocks.reserve(blocks_.size());
  bool tried = false;  // To move a block: one at a time, since the shard is locked meanwhile.
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto rows = rows_.find(i);
    if (rows != rows_.end() && !rows->second.empty()) {
      state->blocks.push_back(tools_.successors->Publish(i, base_->blocks[i], std::move(blocks_[i]),
                                                         std::move(rows->second)));
      continue;
    }
    if (tools_.layout->blocks()[i].frozen || rows != rows_.end()) {
      state->blocks.push_back(base_->blocks[i]);
      if (base_->blocks[i]->place() == 0 && !std::exchange(tried, true)) {
        MoveToArena(tools_.pool, &state->blocks.back());
      }
      continue;
    }
    CHECK(blocks_[i] != nullptr) << "an update without all blocks";
    CHECK(RuleOf(i).passes() == 0 || gradients_->Released(tools_.layout->blocks()[i].slice))
        << "an update without all of a variable";
    state->blocks.push_back(std::move(blocks_[i]));
  }
  return state;
}

}  // namespace millrace::ps
