// Threads that push and pull at once: every state that is seen is a whole version, and every step
// is applied once.
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_test_util.h"
#include "testing/seed/test_seed.h"
#include "testing/spin/spin_until.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeNarrowPiece;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;
using ::millrace::testing::Values;
using ::testing::Each;

constexpr uint64_t kStressElements = 2 * kBlockElements + 100;
constexpr uint64_t kPieceElements = 50'000;
constexpr int kStreams = 3;

class ShardStressTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  ShardStressTest() : spec_(MakeSpec({kStressElements}, GetParam(), kSteps)) {
    ShardPlan plan = *PlanShard(spec_);
    StatePtr state = *MakeInitialState(plan, &pool_);
    shard_ = std::make_unique<Shard>(std::move(plan), /*generation=*/1,
                                     ShardContents{std::move(state), nullptr, {}}, &pool_);
  }

  static constexpr uint64_t kSteps = 48;

  // Pushes a step whose gradient is all ones over some streams at once, one of which rounds, and
  // waits for its answer.
  // Returns false where it was refused.
  bool PushStep(uint64_t step, std::mt19937* random) {
    const uint64_t push_id = ++push_id_;
    const uint64_t first_stream = stream_.fetch_add(kStreams);
    const bool break_off = (*random)() % 8 == 0;
    std::atomic<bool> refused = false;
    std::atomic<int> answers = 0;
    std::vector<std::thread> streams;
    for (uint64_t s = 0; s < kStreams; ++s) {
      streams.emplace_back([&, s] {
        const std::vector<float> ones(kPieceElements, 1);
        for (uint64_t i = s; i * kPieceElements < kStressElements; i += kStreams) {
          if (break_off && s == 1 && i > 3) continue;
          const uint64_t offset = i * kPieceElements;
          DecodedPush message = MakeMessage(spec_, step, push_id);
          const absl::Span<const float> part = absl::MakeConstSpan(ones).subspan(
              0, std::min(kPieceElements, kStressElements - offset));
          message.pieces.push_back(s == 0 ? MakeNarrowPiece(Encoding::BFLOAT16, 0, offset, part)
                                          : MakeWirePiece(0, offset, part));
          shard_->Push(first_stream + s, std::move(message), [&](const PushResponse& answer) {
            if (answer.code() != 0) refused = true;
            ++answers;
          });
        }
      });
    }
    for (std::thread& stream : streams) stream.join();
    for (uint64_t s = 0; s < kStreams; ++s) shard_->StreamEnded(first_stream + s);
    if (break_off) return false;
    // A push that is complete may still wait for the turn, which other threads work on.
    SpinUntil("an answer to the push", [&] { return answers > 0; });
    return !refused;
  }

  const ShardSpec spec_;
  BlockPool pool_;
  std::unique_ptr<Shard> shard_;
  std::atomic<uint64_t> push_id_ = 0;
  std::atomic<uint64_t> stream_ = 1;
};

TEST_P(ShardStressTest, EveryPullSeesAWholeVersion) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (unsigned pusher = 0; pusher < 3; ++pusher) {
    threads.emplace_back([&, pusher] {
      std::mt19937 random(seed + pusher);
      while (Newest(shard_.get())->applied.watermark() < kSteps) {
        // All pushers work on the same few steps, so that they meet.
        const uint64_t next = Newest(shard_.get())->applied.watermark();
        PushStep(std::min(kSteps - 1, next + random() % 3), &random);
      }
    });
  }
  threads.emplace_back([&] {
    while (!done) {
      const StatePtr state = Newest(shard_.get());
      ASSERT_EQ(state->applied.size(), state->version * std::max<uint64_t>(GetParam(), 1));
      ASSERT_THAT(Values(*state), Each(-static_cast<float>(state->version)));
    }
  });
  for (size_t i = 0; i < 3; ++i) threads[i].join();
  done = true;
  threads[3].join();
  EXPECT_EQ(Newest(shard_.get())->version, kSteps / std::max<uint64_t>(GetParam(), 1));
}

INSTANTIATE_TEST_SUITE_P(Replicas, ShardStressTest, ::testing::Values(0, 2));

}  // namespace
}  // namespace millrace::ps
