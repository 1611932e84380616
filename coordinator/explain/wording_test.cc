#include "coordinator/explain/wording.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

TEST(WordingTest, DurationsAreShort) {
  EXPECT_EQ(DescribeDuration(absl::Milliseconds(440)), "0.4 s");
  EXPECT_EQ(DescribeDuration(absl::Seconds(34.7)), "34 s");
  EXPECT_EQ(DescribeDuration(absl::Minutes(12.5)), "12 min");
  EXPECT_EQ(DescribeDuration(absl::Hours(3.5)), "3 h");
}

TEST(WordingTest, WhatIsNotKnownIsNotTold) {
  EXPECT_EQ(For(absl::ZeroDuration()), "");
  EXPECT_EQ(For(absl::Seconds(3)), " for 3 s");
}

TEST(WordingTest, StepOfASynchronousJobIsToldWithItsVersion) {
  ExplainFacts facts;
  EXPECT_EQ(Wording(facts).DescribeStep(17), "step 17");
  facts.status.mutable_spec()->mutable_synchronous()->set_replicas(4);
  EXPECT_EQ(Wording(facts).DescribeStep(17), "step 17 (version 4)");
}

// What a shard said last is older than that its server is gone, or does not answer.
TEST(WordingTest, TroubleOfAShardIsFirstThatOfItsServer) {
  ExplainFacts facts;
  ShardFacts shard;
  shard.server = "ps-0";
  shard.trouble = "the disk is full";
  EXPECT_EQ(Wording(facts).TroubleOf(shard), "the disk is full");
  shard.silent = absl::Seconds(12);
  shard.error = "connection refused";
  EXPECT_EQ(Wording(facts).TroubleOf(shard), "does not answer for 12 s (connection refused)");
  facts.departures.push_back({.name = "ps-0", .since = absl::Seconds(30), .reason = "is silent"});
  EXPECT_EQ(Wording(facts).TroubleOf(shard), "is gone for 30 s (is silent)");
}

TEST(WordingTest, WorkerThatTakesStepsHasNoTrouble) {
  const ExplainFacts facts;
  WorkerView worker;
  worker.has_answered = true;
  EXPECT_EQ(Wording(facts).TroubleOf(worker), "");
  worker.draining = true;
  EXPECT_EQ(Wording(facts).TroubleOf(worker), "is about to stop");
}

}  // namespace
}  // namespace millrace::coordinator
