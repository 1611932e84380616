#include "ps/dense/variable_gradients.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "ps/dense/block_layout.h"

namespace millrace::ps {
namespace {

// Three blocks of one variable, one of another.
class VariableGradientsTest : public ::testing::Test {
 protected:
  VariableGradientsTest() : layout_(MakeLayout()), gradients_(&layout_, &pool_) {}

  static BlockLayout MakeLayout() {
    ShardSpec spec;
    spec.add_slices()->mutable_slice()->set_length(2 * kBlockElements + 3);
    spec.add_slices()->mutable_slice()->set_length(2);
    return *BlockLayout::Create(spec);
  }

  bool BringRun(size_t block, size_t offset, const std::vector<float>& numbers) {
    return gradients_.Bring({block, offset, numbers.size()},
                            reinterpret_cast<const char*>(numbers.data()));
  }

  BlockPool pool_;
  const BlockLayout layout_;
  VariableGradients gradients_;
};

TEST_F(VariableGradientsTest, BlocksOfASliceAreConsecutive) {
  EXPECT_EQ(layout_.slices(), 2u);
  EXPECT_EQ(layout_.BlocksOf(0).begin, 0u);
  EXPECT_EQ(layout_.BlocksOf(0).end, 3u);
  EXPECT_EQ(layout_.BlocksOf(1).begin, 3u);
  EXPECT_EQ(layout_.BlocksOf(1).end, 4u);
}

TEST_F(VariableGradientsTest, LastRunOfABlockIsTold) {
  EXPECT_FALSE(BringRun(2, 2, {3}));
  EXPECT_FALSE(BringRun(3, 1, {5}));
  EXPECT_TRUE(BringRun(2, 0, {1, 2}));
  EXPECT_TRUE(BringRun(3, 0, {4}));
  const auto* const third = reinterpret_cast<const float*>(gradients_.Gradient(2));
  EXPECT_EQ(std::vector<float>(third, third + 3), std::vector<float>({1, 2, 3}));
}

TEST_F(VariableGradientsTest, BlockThatStaysIsNotCopied) {
  const std::shared_ptr<Block> block = pool_.Allocate(3, /*slots=*/0);
  EXPECT_FALSE(gradients_.Bring({2, 0, 1}, block));
  EXPECT_TRUE(gradients_.Bring({2, 1, 2}, block));
  EXPECT_EQ(gradients_.Gradient(2), reinterpret_cast<const char*>(block->array(0)));
}

TEST_F(VariableGradientsTest, LastBlockOfAVariableIsTold) {
  EXPECT_FALSE(gradients_.Measured(1, {}));
  EXPECT_TRUE(gradients_.Measured(3, {}));
  EXPECT_FALSE(gradients_.Measured(0, {}));
  EXPECT_TRUE(gradients_.Measured(2, {}));
  EXPECT_FALSE(gradients_.Released(0));
  gradients_.Release(0);
  EXPECT_TRUE(gradients_.Released(0));
  EXPECT_FALSE(gradients_.Released(1));
}

// One half of the last bit of 1 twice is nothing, unless they are added to each other first.
TEST_F(VariableGradientsTest, NormsAreAddedInTheOrderOfTheBlocks) {
  for (const std::vector<size_t>& order :
       {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
    VariableGradients gradients(&layout_, &pool_);
    for (const size_t block : order) {
      const double norm = block == 0 ? 1 : 0x1p-53;
      gradients.Measured(block, {.gradient = norm, .value = 2 * norm, .step = 4 * norm});
    }
    EXPECT_EQ(gradients.NormsOf(0).gradient, 1);
    EXPECT_EQ(gradients.NormsOf(0).value, 2);
    EXPECT_EQ(gradients.NormsOf(0).step, 4);
  }
}

TEST_F(VariableGradientsTest, ReleasedGradientsAreUsedAgain) {
  const std::shared_ptr<Block> block = pool_.Allocate(3, /*slots=*/0);
  gradients_.Bring({2, 0, 3}, block);
  EXPECT_EQ(block.use_count(), 2);
  gradients_.Release(0);
  EXPECT_EQ(block.use_count(), 1);
}

}  // namespace
}  // namespace millrace::ps
