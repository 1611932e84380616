// What a version makes of its contributions, whatever pieces they come in.
#include "ps/store/running_sum.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "ps/store/store_test_util.h"
#include "ps/store/version_rule.h"

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

  // The negative of the version's gradient: SGD with learning rate 1 from 0.
  std::vector<float> Reduce(std::vector<PushPtr> contributions) {
    next_step_ = 0;
    const UpdateTools tools = {&plan_.layout, plan_.optimizer.get(), &pool_};
    const StatePtr state = *MakeInitialState(plan_, &pool_);
    VersionRule rule(tools, contributions.size(), /*total_steps=*/100, /*held=*/{});
    std::shuffle(contributions.begin(), contributions.end(), random_);
    std::vector<Answered> answered;
    for (const PushPtr& push : contributions) {
      rule.Completed(*state, push, &answered);
      while (const absl::optional<Work> work = rule.Next(state, &answered)) {
        work->compute();
        if (const absl::optional<Computed> computed = rule.Done(*work)) {
          return Values(*work->update->Finish(computed->steps));
        }
      }
    }
    ADD_FAILURE() << "no version";
    return {};
  }

  std::mt19937 random_{1};
  uint64_t next_step_ = 0;
  BlockPool pool_;
  const ShardPlan plan_;
};

TEST_F(RunningSumTest, IsTheFormulaWhateverPiecesTheContributionsCameIn) {
  std::vector<std::vector<float>> gradients(3, std::vector<float>(kElements));
  std::normal_distribution<float> normal;
  for (std::vector<float>& gradient : gradients) {
    for (float& each : gradient) each = normal(random_);
  }
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

}  // namespace
}  // namespace millrace::ps
