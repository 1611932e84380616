#include "ps/dense/shard_plan.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "ps/dense/initial_value.h"

namespace millrace::ps {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class ShardPlanTest : public ::testing::Test {
 protected:
  ShardPlanTest() {
    spec_.set_job_id("job");
    spec_.set_total_steps(100);
    spec_.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  }

  void AddSlice(uint32_t variable, const std::string& name, uint64_t offset, uint64_t length) {
    ShardSlice& slice = *spec_.add_slices();
    slice.set_variable_name(name);
    slice.mutable_slice()->set_variable(variable);
    slice.mutable_slice()->set_offset(offset);
    slice.mutable_slice()->set_length(length);
    slice.mutable_initial_value()->set_constant(0);
  }

  void ExpectRefused(const std::string& message) {
    const absl::Status status = PlanShard(spec_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  ShardSpec spec_;
};

TEST_F(ShardPlanTest, VariableMayHaveSeveralSlices) {
  AddSlice(0, "a", 10, 5);
  AddSlice(0, "a", 0, 10);
  AddSlice(1, "b", 0, 10);
  EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
}

TEST_F(ShardPlanTest, WhatANewerCoordinatorAsksForIsNotLeftOut) {
  AddSlice(0, "a", 0, 10);
  spec_.GetReflection()->MutableUnknownFields(&spec_)->AddVarint(/*number=*/999, 1);
  ExpectRefused("the shard's spec has unknown field 999; this program is older");
}

TEST_F(ShardPlanTest, SlicesAreWholeVariablesWhereTheOptimizerTakesNorms) {
  AddSlice(0, "a", 0, 10);
  AddSlice(1, "b", 0, 6);
  spec_.mutable_slices(1)->add_shape(2);
  spec_.mutable_slices(1)->add_shape(3);
  for (const bool lamb : {false, true}) {
    if (lamb) {
      spec_.mutable_optimizer()->clear_clip_norm();
      spec_.mutable_optimizer()->mutable_lamb();
    } else {
      spec_.mutable_optimizer()->set_clip_norm(1);
    }
    EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
    spec_.mutable_slices(0)->mutable_slice()->set_offset(1);
    ExpectRefused("spec.slices[0].slice: elements 1 to 10 of variable 'a'; must be all of it");
    spec_.mutable_slices(0)->mutable_slice()->set_offset(0);
    spec_.mutable_slices(1)->mutable_slice()->set_length(5);
    ExpectRefused("spec.slices[1].slice: elements 0 to 4 of variable 'b'; must be all of it");
    spec_.mutable_slices(1)->mutable_slice()->set_length(6);
    AddSlice(0, "a", 10, 5);
    ExpectRefused("spec.slices[2].slice: elements 10 to 14 of variable 'a'; must be all of it");
    // It is not the optimizer that updates these.
    spec_.mutable_slices(2)->mutable_update()->mutable_frozen();
    EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
    spec_.mutable_slices()->RemoveLast();
  }
}

TEST_F(ShardPlanTest, GradientThatIsGatheredCountsAsNeeded) {
  AddSlice(0, "a", 0, 1000);
  const uint64_t before = MemoryNeed(*PlanShard(spec_));
  spec_.mutable_optimizer()->set_clip_norm(1);
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), before + 1000 * sizeof(float));
}

// Otherwise the sum of a version is what is gathered.
TEST_F(ShardPlanTest, GradientThatIsClippedBeforeItIsGatheredCountsTwice) {
  AddSlice(0, "a", 0, 1000);
  spec_.set_replicas(2);
  spec_.mutable_optimizer()->mutable_lamb();
  const uint64_t before = MemoryNeed(*PlanShard(spec_));
  spec_.mutable_optimizer()->set_global_clip_norm(1);
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), before + 1000 * sizeof(float));
}

TEST_F(ShardPlanTest, SlicesBeyondTheirShapeAreRefused) {
  AddSlice(0, "a", 5, 10);
  spec_.mutable_slices(0)->add_shape(3);
  spec_.mutable_slices(0)->add_shape(5);
  EXPECT_TRUE(PlanShard(spec_).ok());
  spec_.mutable_slices(0)->set_shape(1, 4);
  ExpectRefused(
      "spec.slices[0].slice: ends at element 15 of variable 'a'; by its shape that has 12");
}

TEST_F(ShardPlanTest, SlicesThatOverlapAreRefused) {
  AddSlice(0, "a", 10, 5);
  AddSlice(0, "a", 0, 11);
  ExpectRefused("spec.slices[0].slice: elements 10 to 14 of variable 'a'; overlaps spec.slices[1]");
}

TEST_F(ShardPlanTest, SliceThatEndsPastAllNumbersIsRefused) {
  AddSlice(0, "a", std::numeric_limits<uint64_t>::max(), 5);
  ExpectRefused("spec.slices[0].slice: offset 18446744073709551615 and length 5");
}

TEST_F(ShardPlanTest, RestoreNamesACheckpointByAnAbsolutePath) {
  AddSlice(0, "a", 0, 5);
  EXPECT_FALSE(StartsFromFiles(spec_));
  ShardRestore& restore = *spec_.mutable_restore();
  ExpectRefused("spec.restore.directory: ''; must be an absolute path");
  restore.set_directory("checkpoints");
  ExpectRefused("spec.restore.directory: 'checkpoints'; must be an absolute path");
  restore.set_directory("/" + std::string(4096, 'a'));
  ExpectRefused("must be an absolute path of at most 4096 bytes");
  restore.set_directory(std::string("/a/b\0c", 6));
  ExpectRefused("must have no byte that is 0");
  restore.set_directory("/checkpoints");
  ExpectRefused("spec.restore.checkpoint: 0; must be at least 1");
  restore.set_checkpoint(1);
  ExpectRefused("spec.restore.manifest_checksum: ''; must be 32 digits of 0 to 9 and a to f");
  restore.set_manifest_checksum("abc");
  ExpectRefused("spec.restore.manifest_checksum: 'abc'; must be 32 digits of 0 to 9 and a to f");
  restore.set_manifest_checksum("0123456789abcdef0123456789abcdef");
  EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
  EXPECT_TRUE(StartsFromFiles(spec_));
}

TEST_F(ShardPlanTest, EncodingOfGradientsIsOneThatThereIs) {
  AddSlice(0, "a", 0, 5);
  for (const auto wire : {Encoding::FLOAT32, Encoding::FLOAT16, Encoding::BFLOAT16}) {
    spec_.set_wire(wire);
    EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
  }
  spec_.set_wire(static_cast<Encoding::Kind>(9));
  ExpectRefused("spec.wire: 9; must be FLOAT32, FLOAT16 or BFLOAT16");
}

TEST_F(ShardPlanTest, StoredInitialValueNamesATensorOfAFile) {
  AddSlice(0, "a", 0, 5);
  StoredTensor& tensor = *spec_.mutable_slices(0)->mutable_initial_value()->mutable_stored();
  ExpectRefused("spec.slices[0].initial_value.stored.name: empty");
  tensor.set_name("a");
  tensor.set_path("a.safetensors");
  ExpectRefused("spec.slices[0].initial_value.stored.path: 'a.safetensors'; must be an absolute");
  tensor.set_path(std::string("/a.safetensors\0b", 16));
  ExpectRefused("must have no byte that is 0");
  tensor.set_path("/a.safetensors");
  EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
  EXPECT_TRUE(StartsFromFiles(spec_));
}

// It is part of files' names.
TEST_F(ShardPlanTest, JobIdIsAPlainName) {
  AddSlice(0, "a", 0, 5);
  for (const std::string& id : {std::string(), std::string("a/b"), std::string("a b"),
                                std::string(kMaxJobIdBytes + 1, 'a')}) {
    spec_.set_job_id(id);
    ExpectRefused("spec.job_id: '");
  }
  spec_.set_job_id(std::string(kMaxJobIdBytes, 'a'));
  EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
}

TEST_F(ShardPlanTest, ThereAreStepsAndATimeBetweenCuts) {
  AddSlice(0, "a", 0, 5);
  EXPECT_EQ(PlanShard(spec_)->cut_period, absl::Seconds(10));
  spec_.mutable_cut_period()->set_nanos(1);
  EXPECT_EQ(PlanShard(spec_)->cut_period, absl::Nanoseconds(1));
  spec_.mutable_cut_period()->set_nanos(0);
  ExpectRefused("spec.cut_period: 0; must be above 0");
  spec_.mutable_cut_period()->set_seconds(-1);
  ExpectRefused("spec.cut_period: -1s; must be above 0");
  spec_.mutable_cut_period()->set_seconds(1);
  spec_.mutable_cut_period()->set_nanos(-1);
  ExpectRefused("spec.cut_period: ");
  spec_.clear_cut_period();
  spec_.set_total_steps(0);
  ExpectRefused("spec.total_steps: 0; must be at least 1");
}

TEST_F(ShardPlanTest, ShardHasSlicesAndTheseHaveElements) {
  ExpectRefused("spec.slices: empty; a shard has at least one slice");
  AddSlice(0, "a", 0, 0);
  ExpectRefused("spec.slices[0].slice.length: 0; a slice has at least 1 element");
  spec_.mutable_slices(0)->mutable_slice()->set_length(1);
  EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
}

TEST_F(ShardPlanTest, SlicesHaveNoMoreElementsThanAServerInAll) {
  AddSlice(0, "a", 0, uint64_t{1} << 37);
  AddSlice(1, "b", 0, uint64_t{1} << 37);
  EXPECT_TRUE(PlanShard(spec_).ok()) << PlanShard(spec_).status();
  AddSlice(2, "c", 0, 1);
  ExpectRefused("spec.slices[2].slice.length: 1; a slice has at least 1 element, and a shard");
}

TEST_F(ShardPlanTest, OnlySynchronousShardsAwaitTheNormOfAllGradients) {
  EXPECT_FALSE(AwaitsNorms(spec_));
  spec_.mutable_optimizer()->set_global_clip_norm(1);
  EXPECT_FALSE(AwaitsNorms(spec_)) << "its worker clips an asynchronous step";
  spec_.set_replicas(1);
  EXPECT_TRUE(AwaitsNorms(spec_));
  spec_.mutable_optimizer()->clear_global_clip_norm();
  EXPECT_FALSE(AwaitsNorms(spec_));
}

TEST_F(ShardPlanTest, NamesAreThereAndDiffer) {
  AddSlice(0, "a", 0, 5);
  AddSlice(1, "", 0, 5);
  ExpectRefused("spec.slices[1].variable_name: 0 bytes");
  spec_.mutable_slices(1)->set_variable_name("a");
  ExpectRefused("spec.slices[1].variable_name: 'a' is the name of variable 0 too");
  spec_.mutable_slices(1)->set_variable_name(std::string(1001, 'a'));
  ExpectRefused("spec.slices[1].variable_name: 1001 bytes");
  spec_.mutable_slices(1)->set_variable_name("b");
  spec_.mutable_slices(1)->mutable_slice()->set_variable(0);
  ExpectRefused("spec.slices[1].variable_name: 'b'; must be 'a' as in spec.slices[0]");
}

TEST_F(ShardPlanTest, InitialValuesAreNumbers) {
  AddSlice(0, "a", 0, 5);
  spec_.mutable_slices(0)->mutable_initial_value()->set_constant(
      std::numeric_limits<float>::infinity());
  ExpectRefused("spec.slices[0].initial_value.constant: inf");
  spec_.mutable_slices(0)->mutable_initial_value()->mutable_uniform()->set_low(1);
  ExpectRefused("low at most high");
  spec_.mutable_slices(0)->mutable_initial_value()->mutable_truncated_normal()->set_stddev(-1);
  ExpectRefused("stddev: -1");
}

TEST_F(ShardPlanTest, UpdateRuleIsCheckedByItsPath) {
  AddSlice(0, "a", 0, 5);
  AddSlice(1, "b", 0, 5);
  AddSlice(2, "c", 0, 5);
  spec_.mutable_slices(1)->mutable_update()->mutable_moving_average()->set_momentum(1.5);
  ExpectRefused("spec.slices[1].update.moving_average.momentum: 1.5; must be at least 0 and below");
  spec_.mutable_slices(1)->mutable_update()->clear_kind();
  ExpectRefused("spec.slices[1].update: not set; must be one of moving_average, frozen");
  spec_.mutable_slices(1)->mutable_update()->mutable_moving_average()->set_momentum(0.9);
  spec_.mutable_slices(2)->mutable_update()->mutable_frozen();
  const auto plan = PlanShard(spec_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->rules.size(), 3);
  EXPECT_EQ(plan->rules[0], nullptr);
  EXPECT_NE(plan->rules[1], nullptr);
  EXPECT_EQ(plan->rules[2], nullptr);
}

TEST_F(ShardPlanTest, StatesShareWhatIsFrozen) {
  AddSlice(0, "a", 0, 1000);
  AddSlice(1, "b", 0, 200);
  spec_.mutable_optimizer()->mutable_adam()->set_learning_rate(1);
  spec_.mutable_slices(0)->mutable_update()->mutable_frozen();
  EXPECT_EQ(StateBytes(*PlanShard(spec_)), 14'400);
  EXPECT_EQ(FrozenBytes(*PlanShard(spec_)), 12'000);
  const uint64_t gradient = 800 + 2 * 192;
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), 12'000 + 4 * 2400 + 2 * gradient);
  spec_.set_replicas(7);
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), 2 * 12'000 + 5 * 2400 + 800 + 7 * gradient);
}

TEST_F(ShardPlanTest, InitialValuesAreThoseOfTheirPlaceInTheVariable) {
  constexpr uint64_t kOffset = kBlockElements + 3;
  AddSlice(0, "a", kOffset, kBlockElements + 5);
  InitialValue& initial_value = *spec_.mutable_slices(0)->mutable_initial_value();
  initial_value.mutable_uniform()->set_high(1);
  BlockPool pool;
  const StatePtr state = *MakeInitialState(*PlanShard(spec_), &pool);
  std::vector<float> variable(kOffset + kBlockElements + 5);
  FillInitialValues(initial_value, spec_.seed(), "a", 0, absl::MakeSpan(variable));
  ASSERT_EQ(state->blocks.size(), 2u);
  EXPECT_EQ(state->blocks[0]->array(0)[0], variable[kOffset]);
  EXPECT_EQ(state->blocks[1]->array(0)[0], variable[kOffset + kBlockElements]);
  EXPECT_EQ(state->blocks[1]->array(0)[4], variable.back());
}

TEST_F(ShardPlanTest, SlotsBeginAtTheOptimizersInitialValues) {
  AddSlice(0, "a", 0, kBlockElements + 5);
  spec_.mutable_optimizer()->mutable_ftrl()->set_initial_accumulator_value(0.25);
  BlockPool pool;
  const ShardPlan plan = *PlanShard(spec_);
  const StatePtr state = *MakeInitialState(plan, &pool);
  ASSERT_EQ(state->blocks.size(), 2u);
  for (const auto& block : state->blocks) {
    const auto array = [&block](int i) {
      return absl::MakeSpan(block->array(i), block->elements());
    };
    EXPECT_THAT(array(0), Each(0));
    EXPECT_THAT(array(1), Each(0.25));
    EXPECT_THAT(array(2), Each(0));
  }
}

TEST_F(ShardPlanTest, MemoryIsCountedAsItIsUsed) {
  AddSlice(0, "a", 0, 1000);
  spec_.mutable_optimizer()->mutable_adam()->set_learning_rate(1);
  EXPECT_EQ(StateBytes(*PlanShard(spec_)), 12'000);
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), 4 * 12'000 + 2 * (4000 + 192));
  spec_.set_replicas(7);
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), 5 * 12'000 + 4000 + 7 * (4000 + 192));
  spec_.set_replicas(200);
  EXPECT_EQ(ReceiveBytes(*PlanShard(spec_)), 100 * (4000 + 192)) << "there are 100 steps";
}

// The product overflowed, and was little.
TEST_F(ShardPlanTest, MemoryOfHugeNumbersIsHuge) {
  AddSlice(0, "a", 0, uint64_t{1} << 38);
  spec_.set_replicas(std::numeric_limits<uint32_t>::max());
  spec_.set_total_steps(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(MemoryNeed(*PlanShard(spec_)), std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace millrace::ps
