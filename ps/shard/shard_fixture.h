// A shard on its own, as tests have it.
#ifndef MILLRACE_PS_SHARD_SHARD_FIXTURE_H_
#define MILLRACE_PS_SHARD_SHARD_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "ps/optimizer/optimizer.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_test_util.h"
#include "ps/shard/spare_memory.h"

namespace millrace::ps {

// Remembers what a successor would find.
class FakeRoot final : public ShardRoot {
 public:
  explicit FakeRoot(absl::optional<RootContents>* contents) : contents_(contents) {}
  ~FakeRoot() override { contents_->reset(); }

  void Write(const RootContents& contents) override { *contents_ = contents; }
  void NoteMoreAcknowledged() override { (*contents_)->more_acknowledged = true; }

 private:
  absl::optional<RootContents>* const contents_;
};

class ShardTest : public ::testing::Test {
 protected:
  void Make(const ShardSpec& spec, std::unique_ptr<Optimizer> optimizer = nullptr,
            bool closed = false) {
    ShardContents contents;
    contents.more_acknowledged = closed;
    MakeFrom(spec, std::move(contents), std::move(optimizer));
  }

  // With the initial values where `contents` have no state.
  void MakeFrom(const ShardSpec& spec, ShardContents contents,
                std::unique_ptr<Optimizer> optimizer = nullptr) {
    ShardPlan plan = *PlanShard(spec);
    if (optimizer != nullptr) plan.optimizer = std::move(optimizer);
    if (contents.state == nullptr) contents.state = *MakeInitialState(plan, &pool_);
    shard_.reset();
    shard_ =
        std::make_unique<Shard>(std::move(plan), /*generation=*/1, std::move(contents), &pool_,
                                std::make_unique<FakeRoot>(&root_), spare_ ? &*spare_ : nullptr);
  }

  // Pushes a piece in a message of its own. Returns the answer, if there is one now.
  absl::optional<PushResponse> PushPiece(uint64_t stream, uint64_t step, uint64_t push_id,
                                         WirePiece piece, uint32_t examples = 1) {
    DecodedPush message =
        ::millrace::testing::MakeMessage(shard_->plan().spec, step, push_id, examples);
    message.pieces.push_back(std::move(piece));
    absl::optional<PushResponse> answer;
    shard_->Push(stream, std::move(message), [&](const PushResponse& got) { answer = got; });
    return answer;
  }

  // The same of `count` elements of slice 0 that are all `value`.
  absl::optional<PushResponse> PushPart(uint64_t stream, uint64_t step, uint64_t push_id,
                                        uint64_t offset, size_t count, float value) {
    return PushPiece(
        stream, step, push_id,
        ::millrace::testing::MakeWirePiece(0, offset, std::vector<float>(count, value)));
  }

  // Of two replicas, the second one's contribution first, each in pieces of 16 of 1,600 elements:
  // `push(step, offset, count)` pushes one. The second one is held until the first one has come.
  template <typename Push>
  void PushTwoInSmallPieces(Push push) {
    for (const uint64_t step : {1, 0}) {
      absl::optional<PushResponse> answer;
      for (uint64_t offset = 0; offset < 1600; offset += 16) {
        ASSERT_FALSE(answer.has_value()) << answer->message();
        answer = push(step, offset, size_t{16});
      }
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->outcome(), step == 1 ? PushResponse::HELD : PushResponse::APPLIED);
    }
  }

  // Values and slots, block by block.
  std::vector<std::vector<float>> AllArrays() {
    std::vector<std::vector<float>> arrays;
    for (const auto& block : ::millrace::testing::Newest(shard_.get())->blocks) {
      for (int i = 0; i <= block->slots(); ++i) {
        arrays.emplace_back(block->array(i), block->array(i) + block->elements());
      }
    }
    return arrays;
  }

  PullRequest Version(uint64_t version) {
    PullRequest request;
    request.set_generation(1);
    request.set_version(version);
    return request;
  }

  BlockPool pool_;
  absl::optional<RootContents> root_;
  absl::optional<SpareMemory> spare_;  // Of shards that are made later; nothing: there is no limit.
  std::unique_ptr<Shard> shard_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_SHARD_FIXTURE_H_
