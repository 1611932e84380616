#include "ps/checkpoint/state_source.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/job_spec.h"
#include "common/status_macros.h"

namespace millrace::ps {
namespace {

class CutSource final : public StateSource {
 public:
  explicit CutSource(std::unique_ptr<OpenCut> cut) : cut_(std::move(cut)) {}

  uint64_t epoch() const override { return cut_->manifest().epoch(); }
  uint64_t version() const override { return cut_->manifest().version(); }
  StepSet applied() const override { return cut_->manifest().applied(); }
  uint64_t memory_bytes() const override {
    return largest_ + 2 * cut_->manifest().checksums().size();
  }

  absl::StatusOr<absl::string_view> Read(size_t block, int array) override {
    MILLRACE_ASSIGN_OR_RETURN(const absl::string_view bytes, cut_->Read(block, array));
    largest_ = std::max<uint64_t>(largest_, bytes.size());
    return bytes;
  }

  absl::optional<std::string> KnownChecksum(size_t block, int array) override {
    const absl::string_view checksum = cut_->Checksum(block, array);
    if (checksum.empty()) return absl::nullopt;
    return absl::BytesToHexString(checksum);
  }

 private:
  const std::unique_ptr<OpenCut> cut_;
  uint64_t largest_ = 0;  // Of the arrays that were read.
};

class MemorySource final : public StateSource {
 public:
  MemorySource(uint64_t epoch, StatePtr state, std::function<StatePtr()> newest)
      : epoch_(epoch), state_(std::move(state)), newest_(std::move(newest)) {}

  uint64_t epoch() const override { return epoch_; }
  uint64_t version() const override { return state_->version; }
  StepSet applied() const override { return state_->applied.ToProto(); }
  // What the shard has replaced it does not take back, so that this only grows.
  uint64_t memory_bytes() const override {
    const StatePtr newest = newest_ == nullptr ? nullptr : newest_();
    uint64_t bytes = 0;
    for (size_t i = 0; i < state_->blocks.size(); ++i) {
      const std::shared_ptr<const Block>& block = state_->blocks[i];
      if (newest != nullptr && i < newest->blocks.size() && newest->blocks[i] == block) continue;
      bytes += block->elements() * sizeof(float) * static_cast<uint64_t>(block->slots() + 1);
    }
    return bytes;
  }

  absl::StatusOr<absl::string_view> Read(size_t block, int array) override {
    const Block& from = *state_->blocks[block];
    return absl::string_view(reinterpret_cast<const char*>(from.array(array)),
                             from.elements() * sizeof(float));
  }

 private:
  const uint64_t epoch_;
  const StatePtr state_;
  const std::function<StatePtr()> newest_;
};

}  // namespace

std::unique_ptr<StateSource> SourceOfCut(std::unique_ptr<OpenCut> cut) {
  return std::make_unique<CutSource>(std::move(cut));
}

std::unique_ptr<StateSource> SourceOfState(uint64_t epoch, StatePtr state,
                                           std::function<StatePtr()> newest) {
  return std::make_unique<MemorySource>(epoch, std::move(state), std::move(newest));
}

ShardImage MakeImage(const ShardPlan& plan, const StateSource& source) {
  ShardImage image;
  image.job_id = plan.spec.job_id();
  image.shard = plan.spec.shard();
  image.epoch = source.epoch();
  image.version = source.version();
  image.applied = source.applied();
  image.slots = OptimizerSlots(plan.spec.optimizer());
  for (const ShardSlice& slice : plan.spec.slices()) {
    image.slices.push_back({slice.variable_name(),
                            {slice.shape().begin(), slice.shape().end()},
                            slice.slice().offset()});
  }
  for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
    image.blocks.push_back({place.slice, place.offset, static_cast<uint32_t>(place.elements)});
  }
  return image;
}

}  // namespace millrace::ps
