// Threads that bring the pieces of one push at once: whoever completes a block or a variable, the
// bits are those of a push that comes whole.
#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_test_util.h"
#include "testing/seed/test_seed.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;

constexpr size_t kLarge = 2 * kBlockElements + 100;
constexpr size_t kSmall = 1000;
constexpr uint64_t kPushes = 8;
constexpr size_t kThreads = 3;

class WholeVariableStressTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  WholeVariableStressTest() : spec_(MakeSpec({kLarge, kSmall}, GetParam(), kPushes)) {
    spec_.mutable_optimizer()->mutable_lamb()->set_learning_rate(0.1);
    spec_.mutable_optimizer()->set_clip_norm(3);
    for (ShardSlice& slice : *spec_.mutable_slices()) {
      slice.mutable_initial_value()->set_constant(0.5);
    }
    for (uint64_t step = 0; step < kPushes; ++step) {
      std::minstd_rand random(static_cast<unsigned>(step + 1));
      std::vector<float>& gradient = gradients_.emplace_back(kLarge + kSmall);
      for (float& g : gradient) g = static_cast<float>(random()) * 0x1p-30f - 1;
    }
  }

  std::unique_ptr<Shard> MakeShard() {
    ShardPlan plan = *PlanShard(spec_);
    StatePtr state = *MakeInitialState(plan, &pool_);
    return std::make_unique<Shard>(std::move(plan), /*generation=*/1,
                                   ShardContents{std::move(state), nullptr, {}}, &pool_);
  }

  std::vector<DecodedPush> Messages(uint64_t step, std::mt19937* random) {
    std::vector<DecodedPush> messages;
    const absl::Span<const float> all(gradients_[step]);
    for (const uint32_t slice : {0, 1}) {
      const size_t length = slice == 0 ? kLarge : kSmall;
      for (size_t offset = 0; offset < length;) {
        const size_t count = std::min<size_t>(length - offset, 1 + (*random)() % 50'000);
        DecodedPush& message =
            messages.emplace_back(MakeMessage(spec_, step, /*push_id=*/step + 1));
        message.pieces.push_back(
            MakeWirePiece(slice, offset, all.subspan((slice == 0 ? 0 : kLarge) + offset, count)));
        offset += count;
      }
    }
    std::shuffle(messages.begin(), messages.end(), *random);
    return messages;
  }

  ShardSpec spec_;
  std::vector<std::vector<float>> gradients_;
  BlockPool pool_;
};

TEST_P(WholeVariableStressTest, ThreadsChangeNoBit) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::mt19937 random(seed);
  const std::unique_ptr<Shard> expected = MakeShard();
  const std::unique_ptr<Shard> shard = MakeShard();
  for (uint64_t step = 0; step < kPushes; ++step) {
    PushWhole(expected.get(), step, step + 1, gradients_[step]);
    std::vector<DecodedPush> messages = Messages(step, &random);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < messages.size(); i += kThreads) {
          shard->Push(/*stream=*/t + 1, std::move(messages[i]), [](const PushResponse&) {});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(Newest(shard.get())->version, Newest(expected.get())->version);
    ASSERT_EQ(Values(*Newest(shard.get())), Values(*Newest(expected.get()))) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, WholeVariableStressTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace millrace::ps
