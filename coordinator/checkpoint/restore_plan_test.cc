#include "coordinator/checkpoint/restore_plan.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Variables of 6, 1 and 40 elements.
CheckpointManifest ThreeVariables() {
  CheckpointManifest manifest;
  for (const auto& [name, size] : {std::pair("a", 6), std::pair("b", 1), std::pair("c", 40)}) {
    VariableSpec& variable = *manifest.mutable_plan()->add_variables();
    variable.set_name(name);
    variable.add_shape(size);
  }
  return manifest;
}

ShardRecord Shard(uint32_t shard, uint64_t watermark, const std::vector<uint64_t>& above,
                  const std::vector<std::tuple<std::string, uint64_t, uint32_t>>& blocks) {
  ShardRecord record;
  record.set_shard(shard);
  record.mutable_applied()->set_watermark(watermark);
  record.mutable_applied()->mutable_above()->Assign(above.begin(), above.end());
  for (const auto& [variable, offset, length] : blocks) {
    StoredBlock& block = *record.add_blocks();
    block.set_variable(variable);
    block.set_offset(offset);
    block.set_length(length);
  }
  return record;
}

TEST(RestorePlanTest, ShardsMayBeMergedWhereTheirStepsAreTheSame) {
  const std::vector<ShardRecord> records = {
      Shard(0, 7, {}, {{"a", 0, 4}}), Shard(1, 7, {}, {{"a", 4, 2}, {"b", 0, 1}, {"c", 0, 3}}),
      Shard(2, 7, {9}, {{"c", 3, 20}}), Shard(3, 6, {}, {{"c", 23, 10}, {"c", 33, 7}})};
  CheckpointManifest manifest = ThreeVariables();
  EXPECT_THAT(FindBoundaries(manifest, records).value(), ElementsAre(10, 30));
  manifest.set_exact(true);
  EXPECT_THAT(FindBoundaries(manifest, records).value(), IsEmpty());
}

TEST(RestorePlanTest, ShardsThatAreNotRunsInOrderAreDamage) {
  const CheckpointManifest manifest = ThreeVariables();
  const std::vector<std::vector<ShardRecord>> bad = {
      {Shard(0, 7, {}, {{"a", 1, 4}})},                                  // Not from the beginning.
      {Shard(0, 7, {}, {{"a", 0, 4}}), Shard(1, 8, {}, {{"a", 5, 1}})},  // A hole between.
      {Shard(0, 7, {}, {{"a", 0, 3}, {"a", 4, 2}})},                     // A hole within.
      {Shard(0, 7, {}, {{"a", 0, 7}})},                                  // Past its variable.
      {Shard(0, 7, {}, {{"d", 0, 1}})},                                  // Of no variable.
      {Shard(0, 7, {}, {})},
  };
  for (const auto& records : bad) {
    const absl::Status status = FindBoundaries(manifest, records).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard "));
  }
}

}  // namespace
}  // namespace millrace::coordinator
