#include "coordinator/placement/placement.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

VariableSpec Variable(std::vector<uint64_t> shape) {
  VariableSpec variable;
  variable.set_name("v");
  for (uint64_t dimension : shape) variable.add_shape(dimension);
  return variable;
}

Variables MakeVariables(const std::vector<VariableSpec>& variables) {
  return Variables(variables.begin(), variables.end());
}

// The slices, in the shards' order, must be the variables' elements, each once, in order.
void ExpectCovers(const std::vector<ShardSlices>& shards,
                  const std::vector<VariableSpec>& variables) {
  uint32_t variable = 0;
  uint64_t offset = 0;
  const auto size = [&](uint32_t v) {
    return CountElements(MakeVariables({variables[v]})).value();
  };
  for (const ShardSlices& shard : shards) {
    EXPECT_FALSE(shard.empty());
    for (const Slice& slice : shard) {
      ASSERT_GE(slice.length(), 1u);
      ASSERT_EQ(slice.variable(), variable);
      ASSERT_EQ(slice.offset(), offset);
      offset += slice.length();
      ASSERT_LE(offset, size(variable));
      if (offset == size(variable)) {
        ++variable;
        offset = 0;
      }
    }
  }
  EXPECT_EQ(variable, variables.size());
}

TEST(PlacementTest, VariablesAreDividedInEqualParts) {
  const std::vector<VariableSpec> variables = {Variable({2, 3}), Variable({}), Variable({4})};
  const auto shards = DivideIntoShards(MakeVariables(variables), 4);
  ExpectCovers(shards, variables);
  for (const ShardSlices& shard : shards) {
    EXPECT_GE(ElementsOf(shard), 2u);
    EXPECT_LE(ElementsOf(shard), 3u);
  }
}

TEST(PlacementTest, AShardMayHoldASingleElement) {
  const std::vector<VariableSpec> variables = {Variable({5})};
  const auto shards = DivideIntoShards(MakeVariables(variables), 5);
  ExpectCovers(shards, variables);
}

TEST(PlacementTest, LargeShardsBeginAtMultiplesOfSixteenElements) {
  const std::vector<VariableSpec> variables = {Variable({1'000'003})};
  const auto shards = DivideIntoShards(MakeVariables(variables), 7);
  ExpectCovers(shards, variables);
  for (const ShardSlices& shard : shards) EXPECT_EQ(shard[0].offset() % 16, 0u);
}

TEST(PlacementTest, AnyDivisionCoversEachElementOnce) {
  const uint32_t seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<VariableSpec> variables(1 + random() % 6);
    for (VariableSpec& variable : variables) variable = Variable({1 + random() % 300'000});
    const uint64_t elements = CountElements(MakeVariables(variables)).value();
    const uint64_t shards = 1 + random() % std::min<uint64_t>(elements, 40);
    const auto divided = DivideIntoShards(MakeVariables(variables), shards);
    ASSERT_EQ(divided.size(), shards);
    ExpectCovers(divided, variables);
    for (const ShardSlices& shard : divided) {
      ASSERT_NEAR(ElementsOf(shard), static_cast<double>(elements) / shards, 17.0);
    }
  }
}

TEST(PlacementTest, NoShardLiesAcrossABoundary) {
  const std::vector<VariableSpec> variables = {Variable({60}), Variable({40})};
  const auto sizes = [&](uint64_t shards, std::vector<uint64_t> boundaries) {
    const auto divided = DivideBetween(MakeVariables(variables), shards, boundaries);
    ExpectCovers(divided, variables);
    std::vector<uint64_t> result;
    for (const ShardSlices& shard : divided) result.push_back(ElementsOf(shard));
    return result;
  };
  EXPECT_THAT(sizes(2, {}), ElementsAre(50, 50));
  EXPECT_THAT(sizes(1, {50}), ElementsAre(50, 50)) << "more than asked for";
  EXPECT_THAT(sizes(3, {70}), ElementsAre(35, 35, 30));
  EXPECT_THAT(sizes(5, {1, 2}), ElementsAre(1, 1, 32, 33, 33));
  EXPECT_THAT(sizes(2, {10, 20, 99}), ElementsAre(10, 10, 79, 1));
  EXPECT_THAT(sizes(100, {1, 70}), testing::Each(1u));
}

TEST(PlacementTest, WholeVariablesAreDividedAsEvenlyAsTheyAllow) {
  const auto sizes = [](const std::vector<uint64_t>& variables, uint64_t shards,
                        std::vector<uint64_t> boundaries) {
    std::vector<VariableSpec> specs;
    for (const uint64_t size : variables) specs.push_back(Variable({size}));
    const auto divided = DivideAtVariables(MakeVariables(specs), shards, boundaries);
    ExpectCovers(divided, specs);
    std::vector<uint64_t> result;
    for (const ShardSlices& shard : divided) {
      for (const Slice& slice : shard) EXPECT_EQ(slice.length(), variables[slice.variable()]);
      result.push_back(ElementsOf(shard));
    }
    return result;
  };
  EXPECT_THAT(sizes({60, 10, 30}, 1, {}), ElementsAre(100));
  EXPECT_THAT(sizes({60, 10, 30}, 2, {}), ElementsAre(60, 40));
  EXPECT_THAT(sizes({60, 10, 30}, 3, {}), ElementsAre(60, 10, 30));
  EXPECT_THAT(sizes({10, 10, 10, 60, 10, 10, 10}, 3, {}), ElementsAre(30, 60, 30));
  EXPECT_THAT(sizes({5, 5, 5, 5, 100}, 4, {}), ElementsAre(5, 5, 10, 100));
  EXPECT_THAT(sizes({60, 10, 30}, 1, {70}), ElementsAre(70, 30)) << "more than asked for";
  EXPECT_THAT(sizes({60, 10, 30, 40}, 3, {70}), ElementsAre(60, 10, 70));
}

TEST(PlacementTest, NoDivisionOfWholeVariablesHasASmallerLargestShard) {
  const uint32_t seed = 8;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint64_t> lengths(1 + random() % 8);
    std::vector<VariableSpec> variables;
    for (uint64_t& length : lengths) {
      length = 1 + random() % 50;
      variables.push_back(Variable({length}));
    }
    const uint64_t shards = 1 + random() % lengths.size();
    const auto divided = DivideAtVariables(MakeVariables(variables), shards, {});
    ASSERT_EQ(divided.size(), shards);
    ExpectCovers(divided, variables);
    uint64_t largest = 0;
    for (const ShardSlices& shard : divided) largest = std::max(largest, ElementsOf(shard));
    // All ways to cut: bit i, after variable i.
    uint64_t least = largest;
    for (uint32_t cuts = 0; cuts < 1u << (lengths.size() - 1); ++cuts) {
      if (static_cast<uint64_t>(__builtin_popcount(cuts)) + 1 > shards) continue;
      uint64_t largest_here = 0;
      uint64_t here = 0;
      for (size_t i = 0; i < lengths.size(); ++i) {
        largest_here = std::max(largest_here, here += lengths[i]);
        if (cuts >> i & 1) here = 0;
      }
      least = std::min(least, largest_here);
    }
    EXPECT_EQ(largest, least);
  }
}

TEST(PlacementTest, MoreShardsThanVariablesAreRefusedWhereTheseAreWhole) {
  const Variables variables = MakeVariables({Variable({60}), Variable({40})});
  EXPECT_TRUE(CheckWholeShardCount(0, variables).ok());
  EXPECT_TRUE(CheckWholeShardCount(2, variables).ok());
  EXPECT_THAT(std::string(CheckWholeShardCount(3, variables).message()),
              HasSubstr("placement.shards: 3; must be at most the number of variables, 2, since"));
}

TEST(PlacementTest, BoundaryWithinAVariableIsFound) {
  const Variables variables = MakeVariables({Variable({60}), Variable({40})});
  EXPECT_EQ(FindDivided(variables, {}), nullptr);
  EXPECT_EQ(FindDivided(variables, {60}), nullptr);
  EXPECT_EQ(FindDivided(variables, {59}), &variables[0]);
  EXPECT_EQ(FindDivided(variables, {60, 61}), &variables[1]);
}

TEST(PlacementTest, MoreShardsThanElementsAreRefusedWithBothNumbers) {
  EXPECT_TRUE(CheckShardCount(10, 10).ok());
  EXPECT_TRUE(CheckShardCount(0, 10).ok());
  const absl::Status status = CheckShardCount(11, 10);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("placement.shards: 11"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("variables, 10"));
}

TEST(PlacementTest, ImpossibleVariablesAreRefused) {
  const uint64_t huge = uint64_t{1} << 40;
  for (const auto& variables :
       std::vector<std::vector<VariableSpec>>{{},
                                              {Variable({3, 0})},
                                              {Variable({huge, huge})},
                                              {Variable({1}), Variable({huge << 22})}}) {
    EXPECT_EQ(CountElements(MakeVariables(variables)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(PlacementTest, ShardsGoWhereLeastIsHeld) {
  const std::vector<VariableSpec> variables = {Variable({40})};
  const auto shards = DivideIntoShards(MakeVariables(variables), 4);
  EXPECT_THAT(AssignShards(shards, {0, 0}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(AssignShards(shards, {100, 15, 0}), ElementsAre(2, 2, 1, 2));
}

}  // namespace
}  // namespace millrace::coordinator
