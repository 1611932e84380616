// A counter that reaches 0 hands over what its threads have written to the one that sees it there:
// each of them releases what it wrote with its subtraction, and the last one acquires all of it.
#include "ps/dense/variable_gradients.h"

#include <cstring>
#include <utility>

#include "glog/logging.h"

namespace millrace::ps {
namespace {

// Whether nothing is missing any more.
bool TakeFrom(std::atomic<size_t>* missing, size_t count) {
  const size_t before = missing->fetch_sub(count, std::memory_order_acq_rel);
  CHECK_GE(before, count) << "an element came twice";
  return before == count;
}

}  // namespace

VariableGradients::VariableGradients(const BlockLayout* layout, BlockPool* pool)
    : layout_(layout),
      pool_(pool),
      blocks_(layout->blocks().size()),
      variables_(layout->slices()),
      gradients_(blocks_.size()) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].missing = layout->blocks()[i].elements;
    ++variables_[layout->blocks()[i].slice].missing;
  }
}

bool VariableGradients::Bring(const BlockLayout::Run& run, const char* gradient) {
  // Others write to other elements of the block.
  float* to = nullptr;
  {
    MutexLock lock(&mutex_);
    std::shared_ptr<Block>& block = gradients_[run.block];
    if (block == nullptr) {
      block = pool_->Allocate(layout_->blocks()[run.block].elements, /*slots=*/0);
      CHECK(block != nullptr) << "out of memory for the gradient of a block";
    }
    to = block->array(0) + run.offset;
  }
  std::memcpy(to, gradient, run.count * sizeof(float));
  return Arrived(run);
}

bool VariableGradients::Bring(const BlockLayout::Run& run, std::shared_ptr<Block> gradient) {
  {
    MutexLock lock(&mutex_);
    gradients_[run.block] = std::move(gradient);
  }
  return Arrived(run);
}

bool VariableGradients::Arrived(const BlockLayout::Run& run) {
  return TakeFrom(&blocks_[run.block].missing, run.count);
}

const char* VariableGradients::Gradient(size_t block) const {
  MutexLock lock(&mutex_);
  return reinterpret_cast<const char*>(gradients_[block]->values().data());
}

bool VariableGradients::Measured(size_t block, const SquaredNorms& norms) {
  blocks_[block].norms = norms;
  return TakeFrom(&variables_[layout_->blocks()[block].slice].missing, 1);
}

SquaredNorms VariableGradients::NormsOf(uint32_t slice) const {
  SquaredNorms norms;
  const BlockLayout::BlockRange blocks = layout_->BlocksOf(slice);
  for (size_t block = blocks.begin; block < blocks.end; ++block) norms.Add(blocks_[block].norms);
  return norms;
}

void VariableGradients::Release(uint32_t slice) {
  const BlockLayout::BlockRange blocks = layout_->BlocksOf(slice);
  MutexLock lock(&mutex_);
  for (size_t block = blocks.begin; block < blocks.end; ++block) gradients_[block].reset();
  variables_[slice].released = true;
}

bool VariableGradients::Released(uint32_t slice) const {
  MutexLock lock(&mutex_);
  return variables_[slice].released;
}

}  // namespace millrace::ps
