// What a version makes of its contributions, whatever pieces they come in.
#include "ps/dense/running_sum.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/shard/version_rule.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Values;

constexpr size_t kFirst = kBlockElements + 77;
constexpr size_t kSecond = 9;
constexpr size_t kElements = kFirst + kSecond;

class RunningSumTest : public ::testing::Test {
 protected:
  RunningSumTest() : plan_(*PlanShard(MakeSpec({kFirst, kSecond}, /*replicas=*/3))) {}

  // A contribution in pieces of about `piece` elements, in random order, received in slices of
  // `slice_bytes` bytes.
  PushPtr Contribution(uint32_t examples, const std::vector<float>& gradient, size_t piece,
                       size_t slice_bytes) {
    auto pieces = std::make_shared<std::vector<WirePiece>>();
    const absl::Span<const float> values(gradient);
    for (size_t offset = 0; offset < kFirst; offset += piece) {
      const size_t count = std::min(piece, kFirst - offset);
      pieces->push_back(MakeWirePiece(0, offset, values.subspan(offset, count), slice_bytes));
    }
    pieces->push_back(MakeWirePiece(1, 0, values.subspan(kFirst), slice_bytes));
    std::shuffle(pieces->begin(), pieces->end(), random_);
    auto push = std::make_shared<PushAssembly>(/*push_id=*/1, /*step=*/next_step_++, examples);
    EXPECT_TRUE(push->Add(plan_.layout, 1, std::move(pieces), true).ok());
    return push;
  }

  // Gives a contribution to the rule, and computes what there is to compute. Returns the state that
  // is to be published, or nullptr.
  StatePtr Contribute(VersionRule* rule, const StatePtr& state, const PushPtr& push) {
    std::vector<Answered> answered;
    rule->Completed(*state, push, &answered);
    while (const absl::optional<Work> work = rule->Next(state, &answered)) {
      work->compute();
      const absl::optional<Computed> computed = rule->Done(*work);
      if (computed.has_value()) return work->update->Finish(computed->steps);
    }
    return nullptr;
  }

  // The negative of the version's gradient: SGD with learning rate 1 from 0.
  std::vector<float> Reduce(std::vector<PushPtr> contributions) {
    next_step_ = 0;
    const StatePtr state = *MakeInitialState(plan_, &pool_);
    VersionRule rule(Tools(), contributions.size(), /*total_steps=*/100, /*held=*/{});
    std::shuffle(contributions.begin(), contributions.end(), random_);
    for (const PushPtr& push : contributions) {
      if (const StatePtr next = Contribute(&rule, state, push)) return Values(*next);
    }
    ADD_FAILURE() << "no version";
    return {};
  }

  UpdateTools Tools() { return {&plan_.layout, plan_.optimizer.get(), &pool_}; }

  std::vector<std::vector<float>> RandomGradients() {
    std::vector<std::vector<float>> gradients(3, std::vector<float>(kElements));
    std::normal_distribution<float> normal;
    for (std::vector<float>& gradient : gradients) {
      for (float& each : gradient) each = normal(random_);
    }
    return gradients;
  }

  std::mt19937 random_{1};
  uint64_t next_step_ = 0;
  BlockPool pool_;
  const ShardPlan plan_;
};

TEST_F(RunningSumTest, IsTheFormulaWhateverPiecesTheContributionsCameIn) {
  const std::vector<std::vector<float>> gradients = RandomGradients();
  const std::vector<uint32_t> examples = {48, 64, 17};
  // Written out as in version_rule.h.
  std::vector<float> expected(kElements);
  const float divisor = (48.0f + 64.0f + 17.0f) / 48.0f;
  for (size_t i = 0; i < kElements; ++i) {
    float sum = gradients[0][i];
    sum += (64.0f / 48.0f) * gradients[1][i];
    sum += (17.0f / 48.0f) * gradients[2][i];
    expected[i] = 0.0f - sum / divisor;
  }
  for (const size_t piece : {size_t{1000}, size_t{12345}, kBlockElements, kElements}) {
    for (const size_t slice_bytes : {size_t{1001}, size_t{8192}, size_t{1} << 20}) {
      std::vector<PushPtr> contributions;
      for (size_t i = 0; i < 3; ++i) {
        contributions.push_back(Contribution(examples[i], gradients[i], piece, slice_bytes));
      }
      ASSERT_EQ(Reduce(contributions), expected)
          << "pieces of " << piece << ", slices of " << slice_bytes;
    }
  }
}

TEST_F(RunningSumTest, EqualWeightsGiveTheMean) {
  const std::vector<float> one(kElements, 1);
  const std::vector<float> four(kElements, 4);
  for (const uint32_t examples : {0, 1, 50}) {
    const std::vector<float> mean = Reduce({Contribution(examples, one, kElements, 4096),
                                            Contribution(examples, four, kElements, 4096),
                                            Contribution(examples, one, kElements, 4096)});
    EXPECT_EQ(mean, std::vector<float>(kElements, -2)) << examples << " examples";
  }
}

TEST_F(RunningSumTest, SingleContributionIsTakenAsItIs) {
  const std::vector<float> tenth(kElements, 0.1f);
  EXPECT_EQ(Reduce({Contribution(50, tenth, 1000, 1001)}), std::vector<float>(kElements, -0.1f));
}

TEST_F(RunningSumTest, ReceivedBytesAreReleasedAsTheyAreAdded) {
  const std::vector<float> ones(kElements, 1);
  const StatePtr state = *MakeInitialState(plan_, &pool_);
  VersionRule rule(Tools(), /*replicas=*/3, /*total_steps=*/100, /*held=*/{});
  const PushPtr first = Contribution(1, ones, kElements, 4096);
  const PushPtr second = Contribution(1, ones, kElements, 4096);
  EXPECT_EQ(Contribute(&rule, state, second), nullptr);
  EXPECT_FALSE(second->pieces().empty()) << "the first one is missing";
  EXPECT_EQ(Contribute(&rule, state, first), nullptr);
  EXPECT_TRUE(first->pieces().empty());
  EXPECT_TRUE(second->pieces().empty());
  EXPECT_EQ(rule.HeldSteps().watermark(), 2);
}

TEST_F(RunningSumTest, GoesOnInAnotherLifeWithTheSameBits) {
  const std::vector<std::vector<float>> gradients = RandomGradients();
  const std::vector<uint32_t> examples = {48, 64, 17};
  const StatePtr state = *MakeInitialState(plan_, &pool_);
  std::vector<std::vector<float>> results;
  for (size_t before = 0; before < 3; ++before) {
    next_step_ = 0;
    std::vector<PushPtr> pushes;
    for (size_t i = 0; i < 3; ++i) {
      pushes.push_back(Contribution(examples[i], gradients[i], kElements, 4096));
    }
    VersionRule rule(Tools(), /*replicas=*/3, /*total_steps=*/100, /*held=*/{});
    for (size_t i = 0; i < before; ++i) Contribute(&rule, state, pushes[i]);
    VersionRule again(Tools(), /*replicas=*/3, /*total_steps=*/100, rule.Held());
    EXPECT_EQ(again.HeldSteps().size(), before);
    StatePtr next;
    for (size_t i = before; i < 3; ++i) next = Contribute(&again, state, pushes[i]);
    ASSERT_NE(next, nullptr);
    results.push_back(Values(*next));
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

}  // namespace
}  // namespace millrace::ps
