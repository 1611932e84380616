#include "coordinator/shards/shard_making.h"

#include <vector>

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

// A job of two variables, of 10 and `elements` elements, without slots.
JobRecord JobOfTwoVariables(int64_t elements) {
  JobRecord record;
  record.set_job_id("j");
  record.set_total_steps(100);
  record.mutable_spec()->mutable_synchronous()->set_replicas(3);
  record.mutable_spec()->mutable_optimizer()->mutable_sgd();
  record.mutable_spec()->set_seed(8);
  record.mutable_spec()->mutable_cuts()->mutable_period()->set_seconds(7);
  for (const int64_t size : {int64_t{10}, elements}) {
    VariableSpec& variable = *record.mutable_plan()->add_variables();
    variable.set_name(size == 10 ? "bias" : "kernel");
    variable.add_shape(size);
    if (size == 10) variable.mutable_update()->mutable_frozen();
  }
  return record;
}

ShardPlacement Holding(uint32_t variable, uint64_t offset, uint64_t length) {
  ShardPlacement placement;
  Slice& slice = *placement.add_slices();
  slice.set_variable(variable);
  slice.set_offset(offset);
  slice.set_length(length);
  return placement;
}

TEST(ShardMakingTest, ShardIsToldWhatItHolds) {
  const ShardMaking making(JobOfTwoVariables(1000));
  const ShardSpec spec = making.SpecOf(2, Holding(1, 500, 250));
  EXPECT_EQ(spec.job_id(), "j");
  EXPECT_EQ(spec.shard(), 2u);
  EXPECT_EQ(spec.replicas(), 3u);
  EXPECT_EQ(spec.total_steps(), 100u);
  EXPECT_EQ(spec.seed(), 8u);
  EXPECT_FALSE(spec.has_restore());
  ASSERT_EQ(spec.slices_size(), 1);
  EXPECT_EQ(spec.slices(0).variable_name(), "kernel");
  EXPECT_EQ(spec.slices(0).slice().offset(), 500u);
  EXPECT_EQ(spec.slices(0).slice().length(), 250u);
  EXPECT_EQ(spec.slices(0).shape(0), 1000);
  EXPECT_FALSE(spec.slices(0).initial_value().has_stored());
  EXPECT_FALSE(spec.slices(0).has_update());
  EXPECT_TRUE(making.SpecOf(0, Holding(0, 0, 10)).slices(0).update().has_frozen());
  EXPECT_EQ(spec.cut_period().seconds(), 7);
}

TEST(ShardMakingTest, VariablesThatTheWarmStartNamesBeginAsItsTensors) {
  JobRecord record = JobOfTwoVariables(1000);
  record.add_warm_start();  // The first is not in it.
  record.add_warm_start()->set_name("dense/kernel");
  const ShardMaking making(record);
  EXPECT_FALSE(making.SpecOf(0, Holding(0, 0, 10)).slices(0).initial_value().has_stored());
  EXPECT_EQ(making.SpecOf(0, Holding(1, 0, 10)).slices(0).initial_value().stored().name(),
            "dense/kernel");
}

TEST(ShardMakingTest, ShardTakesGradientsAsTheJobSaysWhereBitsDependOnIt) {
  JobRecord record = JobOfTwoVariables(1000);
  record.set_wire_is_checked(true);
  const auto spec_of_first = [&record] { return ShardMaking(record).SpecOf(0, Holding(0, 0, 10)); };
  ASSERT_TRUE(spec_of_first().has_wire());
  EXPECT_EQ(spec_of_first().wire(), Encoding::FLOAT32);
  record.mutable_spec()->mutable_precision()->set_wire(Encoding::BFLOAT16);
  EXPECT_EQ(spec_of_first().wire(), Encoding::BFLOAT16);
  record.mutable_spec()->mutable_synchronous()->set_allow_mixed_workers(true);
  EXPECT_FALSE(spec_of_first().has_wire());
  record.mutable_spec()->mutable_asynchronous();
  EXPECT_FALSE(spec_of_first().has_wire());
}

// A server that has the shard already would take it for another one.
TEST(ShardMakingTest, ShardOfAnOlderJobIsToldNothingNew) {
  JobRecord record = JobOfTwoVariables(1000);
  record.mutable_spec()->mutable_precision()->set_wire(Encoding::BFLOAT16);
  EXPECT_FALSE(ShardMaking(record).SpecOf(0, Holding(0, 0, 10)).has_wire());
}

TEST(ShardMakingTest, RestoredShardIsToldOfTheCheckpoint) {
  ShardPlacement placement = Holding(0, 0, 10);
  placement.mutable_restore()->set_checkpoint(7);
  const ShardMaking making(JobOfTwoVariables(1000));
  EXPECT_EQ(making.SpecOf(0, placement).restore().checkpoint(), 7u);
}

TEST(ShardMakingTest, ShardsThatAreReadMayTakeAsLongAsTheSlowestNetworkNeeds) {
  constexpr uint64_t kMany = uint64_t{100} << 30;
  const ShardMaking making(JobOfTwoVariables(int64_t{1} << 40));
  std::vector<ShardPlacement> shards = {Holding(0, 0, 10), Holding(1, 0, kMany)};
  EXPECT_LT(making.Patience(shards), kReadPatience) << "made in memory";
  shards[0].mutable_restore()->set_checkpoint(7);
  EXPECT_EQ(making.Patience({&shards[0], 1}), kReadPatience);
  EXPECT_EQ(making.Patience(shards), absl::Seconds(kMany * sizeof(float) / (10 << 20)))
      << "10 MiB a second";
}

TEST(ShardMakingTest, WarmStartIsReadToo) {
  JobRecord record = JobOfTwoVariables(1000);
  record.add_warm_start();
  EXPECT_EQ(ShardMaking(record).Patience({Holding(0, 0, 10)}), kReadPatience);
}

}  // namespace
}  // namespace millrace::coordinator
