#include "worker/parameters/shard_layout.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;

struct TestSlice {
  uint32_t shard;
  uint32_t variable;
  uint64_t offset;
  uint64_t length;
};

Routing MakeRouting(const std::vector<TestSlice>& slices) {
  Routing routing;
  routing.set_generation(5);
  for (const TestSlice& slice : slices) {
    while (routing.shards_size() <= static_cast<int>(slice.shard)) {
      ShardRoute* shard = routing.add_shards();
      shard->set_shard(routing.shards_size() - 1);
      shard->set_server("ps-0");
      shard->set_address("127.0.0.1:7070");
    }
    Slice* added = routing.mutable_shards(slice.shard)->add_slices();
    added->set_variable(slice.variable);
    added->set_offset(slice.offset);
    added->set_length(slice.length);
  }
  return routing;
}

std::string Refusal(const std::vector<uint64_t>& sizes, const Routing& routing) {
  const auto layout = MakeLayout(sizes, routing);
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument) << layout.status();
  return layout.status().ToString();
}

TEST(ShardLayoutTest, VariablesKnowTheirSlicesInOrder) {
  const auto layout = MakeLayout({10, 4}, MakeRouting({{0, 0, 6, 4}, {0, 1, 0, 4}, {1, 0, 0, 6}}));
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->generation, 5u);
  ASSERT_EQ(layout->shards.size(), 2u);
  EXPECT_EQ(layout->shards[0].elements, 8u);
  EXPECT_EQ(layout->shards[1].Describe(), "ps-0 (127.0.0.1:7070), shard 1");
  ASSERT_EQ(layout->variables[0].size(), 2u);
  EXPECT_EQ(layout->variables[0][0].shard, 1u);
  EXPECT_EQ(layout->variables[0][1].shard, 0u);
  ASSERT_EQ(layout->variables[1].size(), 1u);
  EXPECT_EQ(layout->variables[1][0].slice, 1u);
}

TEST(ShardLayoutTest, FrozenVariablesAreCountedApart) {
  const Routing routing = MakeRouting({{0, 0, 6, 4}, {0, 1, 0, 4}, {1, 0, 0, 6}});
  const auto layout = MakeLayout({10, 4}, routing, {true, false});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->shards[0].elements, 8u);
  EXPECT_EQ(layout->shards[0].pushed, 4u);
  EXPECT_EQ(layout->shards[1].elements, 6u);
  EXPECT_EQ(layout->shards[1].pushed, 0u);
  EXPECT_EQ(MakeLayout({10, 4}, routing)->shards[0].pushed, 8u);
}

TEST(ShardLayoutTest, ElementInNoShardIsRefused) {
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 0, 0, 4}, {1, 0, 5, 5}})),
              HasSubstr("element 4 of variable 0 is in no shard"));
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 0, 0, 9}})),
              HasSubstr("element 9 of variable 0 is in no shard"));
  EXPECT_THAT(Refusal({10, 1}, MakeRouting({{0, 0, 0, 10}})),
              HasSubstr("element 0 of variable 1 is in no shard"));
}

TEST(ShardLayoutTest, ElementInTwoSlicesIsRefused) {
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 0, 0, 6}, {1, 0, 5, 5}})),
              HasSubstr("element 5 of variable 0 is in two slices"));
}

TEST(ShardLayoutTest, SliceOutsideItsVariableIsRefusedByPath) {
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 0, 0, 11}})),
              HasSubstr("routing.shards[0].slices[0]"));
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 0, 2, ~uint64_t{0}}})), HasSubstr("which has 10"));
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 1, 0, 1}})), HasSubstr("slices[0].variable: 1"));
  EXPECT_THAT(Refusal({10}, MakeRouting({{0, 0, 0, 0}})), HasSubstr("slices[0].length: 0"));
}

TEST(ShardLayoutTest, ShardsMustBeDifferentNotEmptyAndSomewhere) {
  Routing routing = MakeRouting({{0, 0, 0, 5}, {1, 0, 5, 5}});
  routing.mutable_shards(1)->set_shard(0);
  EXPECT_THAT(Refusal({10}, routing), HasSubstr("routing.shards[1].shard: 0 is given twice"));
  routing = MakeRouting({{0, 0, 0, 5}, {1, 0, 5, 5}});
  routing.mutable_shards(1)->clear_address();
  EXPECT_THAT(Refusal({10}, routing), HasSubstr("routing.shards[1].address"));
  routing = MakeRouting({{0, 0, 0, 10}});
  routing.add_shards()->set_address("127.0.0.1:7070");
  EXPECT_THAT(Refusal({10}, routing), HasSubstr("routing.shards[1].slices: empty"));
}

TEST(ShardLayoutTest, JobWithoutVariablesNeedsNoShards) {
  EXPECT_TRUE(MakeLayout({}, Routing()).ok());
}

}  // namespace
}  // namespace millrace::worker
