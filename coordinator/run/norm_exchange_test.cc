#include "coordinator/run/norm_exchange.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/exact_square_sum.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

MeasureVersionResponse Measured(const std::vector<float>& gradient) {
  ExactSquareSum sum;
  sum.Add(gradient);
  MeasureVersionResponse shard;
  shard.set_state(MeasureVersionResponse::MEASURED);
  shard.set_not_finite(!sum.is_finite());
  for (const uint64_t word : sum.ToWords()) shard.add_square_sum(word);
  return shard;
}

MeasureVersionResponse Known(double norm) {
  MeasureVersionResponse shard;
  shard.set_state(MeasureVersionResponse::NORM_KNOWN);
  shard.set_norm(norm);
  return shard;
}

MeasureVersionResponse In(MeasureVersionResponse::State state) {
  MeasureVersionResponse shard;
  shard.set_state(state);
  return shard;
}

std::vector<ShardStatus> AtVersions(const std::vector<uint64_t>& versions) {
  std::vector<ShardStatus> shards;
  for (const uint64_t version : versions) {
    shards.emplace_back().set_version(version);
    shards.back().set_generation(3);
  }
  return shards;
}

JobSpec ClippedJob(uint32_t replicas) {
  JobSpec spec;
  spec.mutable_optimizer()->set_global_clip_norm(1);
  if (replicas > 0) spec.mutable_synchronous()->set_replicas(replicas);
  return spec;
}

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

TEST(DecideNormTest, NormIsThatOfAllShards) {
  const auto decision = DecideNorm({Measured({3}), Measured({}), Measured({4, 12})});
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->norm, 13);
}

TEST(DecideNormTest, VersionThatAShardHasMadeKeepsItsNorm) {
  const auto decision = DecideNorm({Measured({3}), Known(7), Measured({4}), Known(7)});
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->norm, 7);
}

TEST(DecideNormTest, DifferentNormsOfOneVersionAreAnError) {
  const auto decision = DecideNorm({Known(7), Measured({3}), Known(8)});
  EXPECT_EQ(decision.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(decision.status().message()), HasSubstr("different norms, 7 and 8"));
}

TEST(DecideNormTest, ShardThatHasNotMeasuredIsWaitedFor) {
  for (const auto state : {MeasureVersionResponse::INCOMPLETE, MeasureVersionResponse::ADDING}) {
    const auto decision = DecideNorm({Known(7), In(state), Measured({3})});
    ASSERT_TRUE(decision.ok());
    EXPECT_FALSE(decision->norm.has_value()) << "it could not be told the norm";
    EXPECT_EQ(decision->shard, 1u);
    EXPECT_EQ(decision->state, state);
  }
}

TEST(DecideNormTest, NormOfWhatIsNotFiniteIsInfinite) {
  const auto decision = DecideNorm({Measured({3}), Measured({std::nanf("")})});
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->norm, std::numeric_limits<double>::infinity());
}

TEST(DecideNormTest, SumThatNoShardCanHaveIsAnError) {
  MeasureVersionResponse shard = In(MeasureVersionResponse::MEASURED);
  for (int word = 0; word < 100; ++word) shard.add_square_sum(1);
  EXPECT_EQ(DecideNorm({shard}).status().code(), absl::StatusCode::kInternal);
}

TEST(NormExchangeTest, VersionIsDueWhenItsLastStepIsDone) {
  SimulatedClock clock;
  NormExchange norms(ClippedJob(4), /*total_steps=*/10, &clock);
  EXPECT_EQ(norms.due_at(), kNever) << "nothing has begun";
  norms.Start(AtVersions({0, 0}));
  EXPECT_FALSE(norms.IsDue(3));
  EXPECT_TRUE(norms.IsDue(4));
  norms.Start(AtVersions({2, 1}));
  EXPECT_EQ(norms.due_at(), 8u) << "of the shard that is behind";
  norms.Start(AtVersions({2, 2}));
  EXPECT_EQ(norms.due_at(), 10u) << "the last version has fewer steps";
  norms.Start(AtVersions({3, 3}));
  EXPECT_EQ(norms.due_at(), kNever) << "the job is over";
}

TEST(NormExchangeTest, JobsThatNeedNoNormHaveNothingDue) {
  SimulatedClock clock;
  JobSpec plain = ClippedJob(4);
  plain.mutable_optimizer()->clear_global_clip_norm();
  for (const JobSpec& spec : {plain, ClippedJob(0)}) {
    NormExchange norms(spec, /*total_steps=*/10, &clock);
    norms.Start(AtVersions({0, 0}));
    EXPECT_EQ(norms.due_at(), kNever);
  }
}

}  // namespace
}  // namespace millrace::coordinator
