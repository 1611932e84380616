// The order in which culprits are found; what is said of each see explain_test.cc.
#include "coordinator/explain/waits.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

// A job whose server does not answer, and whose worker has been late with a step for longer.
ExplainFacts StuckFacts() {
  ExplainFacts facts;
  facts.status.set_state(RUNNING);
  facts.dispatch.started = true;
  WorkerView worker;
  worker.name = "worker-0";
  worker.has_answered = true;
  worker.leases.push_back({.step = 3, .out = absl::Seconds(20), .late = true});
  facts.dispatch.workers.push_back(worker);
  ShardFacts shard;
  shard.server = "ps-0";
  shard.silent = absl::Seconds(10);
  facts.shards.push_back(shard);
  return facts;
}

TEST(WaitsTest, ServerThatDoesNotAnswerComesBeforeTheWorkerThatWaitsForIt) {
  EXPECT_THAT(FindWaits(StuckFacts()),
              ElementsAre(Field(&Finding::whom, "ps-0"), Field(&Finding::whom, "worker-0")));
}

TEST(WaitsTest, WhatTheRunnerWaitsForComesFirst) {
  ExplainFacts facts = StuckFacts();
  facts.wait = RunnerWait{.whom = "ps-1 (not connected)", .since = absl::Seconds(1)};
  EXPECT_THAT(FindWaits(facts),
              ElementsAre(Field(&Finding::whom, "ps-1 (not connected)"),
                          Field(&Finding::whom, "ps-0"), Field(&Finding::whom, "worker-0")));
}

TEST(WaitsTest, JobThatWaitsForItsTurnWaitsForNobodyElse) {
  ExplainFacts facts = StuckFacts();
  facts.wait = RunnerWait{.whom = "waits for its turn", .since = {}, .is_turn = true};
  EXPECT_THAT(FindWaits(facts), ElementsAre(Field(&Finding::whom, "its turn")));
}

TEST(WaitsTest, JobThatHasEndedWaitsForNobody) {
  ExplainFacts facts = StuckFacts();
  facts.status.set_state(CANCELLED);
  EXPECT_THAT(FindWaits(facts), IsEmpty());
}

}  // namespace
}  // namespace millrace::coordinator
