#include "ps/shard/held_states.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

StatePtr SomeState() { return std::make_shared<ShardState>(); }

HeldStates::IsKept IsOnly(const StatePtr& state) {
  return [state](const ShardState* other) { return other == state.get(); };
}

PullRequest PartOf(uint64_t group, uint32_t part) {
  PullRequest request;
  request.set_pull_group(group);
  request.set_parts(3);
  request.set_part(part);
  return request;
}

TEST(HeldStatesTest, WhatTheShardKeepsItselfIsNeitherOldNorTakenBack) {
  HeldStates held;
  const StatePtr newest = SomeState();
  const auto of_old = held.Hold(SomeState());
  const auto of_newest = held.Hold(newest);
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 1);
  const StatePtr old = of_old->Get();
  EXPECT_THAT(held.TakeBackOldest(IsOnly(newest)), ElementsAre(old));
  EXPECT_EQ(of_old->Get(), nullptr);
  EXPECT_EQ(of_newest->Get(), newest);
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 0);
  EXPECT_THAT(held.TakeBackOldest(IsOnly(newest)), ElementsAre());
  EXPECT_EQ(of_newest->Get(), newest);
}

TEST(HeldStatesTest, StateOfSeveralPullsCountsOnceAndIsTakenBackFromAllOfThem) {
  HeldStates held;
  const StatePtr newest = SomeState();
  const StatePtr older = SomeState();
  const StatePtr old = SomeState();
  const auto first = held.Hold(older);
  const auto other = held.Hold(old);
  const auto second = held.Hold(older);
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 2);
  EXPECT_THAT(held.TakeBackOldest(IsOnly(newest)), ElementsAre(older, older));
  EXPECT_EQ(first->Get(), nullptr);
  EXPECT_EQ(second->Get(), nullptr);
  EXPECT_EQ(other->Get(), old);
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 1);
}

TEST(HeldStatesTest, StateThatNobodyReadsAnyMoreDoesNotCount) {
  HeldStates held;
  const StatePtr newest = SomeState();
  const auto of_newest = held.Hold(newest);
  held.Hold(SomeState());
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 0);
}

TEST(HeldStatesTest, StateThatAGroupWaitsWithCountsUntilTheGroupIsEnded) {
  HeldStates held;
  const StatePtr newest = SomeState();
  const StatePtr old = SomeState();
  ASSERT_EQ(*held.FindGroup(PartOf(/*group=*/1, /*part=*/0), old, absl::UnixEpoch()), old);
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 1);
  const auto hold = held.Hold(old);
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 1) << "the same one";
  EXPECT_EQ(*held.FindGroup(PartOf(1, 1), newest, absl::UnixEpoch()), old);
  EXPECT_THAT(held.TakeBackOldest(IsOnly(newest)), ElementsAre(old, old));
  EXPECT_EQ(held.CountOld(IsOnly(newest)), 0);
  EXPECT_TRUE(absl::IsAborted(held.FindGroup(PartOf(1, 2), newest, absl::UnixEpoch()).status()));
}

}  // namespace
}  // namespace millrace::ps
