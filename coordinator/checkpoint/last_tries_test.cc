#include "coordinator/checkpoint/last_tries.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

const absl::Time kEnd = absl::UnixEpoch() + absl::Hours(9);

TEST(LastTriesTest, ItIsTriedAgainForAMinute) {
  LastTries tries;
  EXPECT_FALSE(tries.begun());
  CutName cut;
  cut.set_version(7);
  tries.Begin(cut, kEnd);
  EXPECT_EQ(tries.cut()->version(), 7u);
  absl::Time now = kEnd;
  EXPECT_TRUE(tries.IsDue(now));
  tries.Failed(absl::UnavailableError("the disk is full"), now);
  EXPECT_FALSE(tries.IsDue(now + absl::Seconds(1)));
  EXPECT_TRUE(tries.IsDue(now + absl::Seconds(2)));
  now += absl::Minutes(1);
  EXPECT_TRUE(tries.IsDue(now));
  EXPECT_FALSE(tries.IsHopeless(now));
  now += absl::Seconds(1);
  EXPECT_FALSE(tries.IsDue(now));
  EXPECT_TRUE(tries.IsHopeless(now));
}

TEST(LastTriesTest, WhatIsWrittenBeforeItTakesNothingOfItsTime) {
  LastTries tries;
  tries.Begin(absl::nullopt, kEnd);
  const absl::Time free = kEnd + absl::Minutes(5);
  EXPECT_TRUE(tries.IsDue(free));
  EXPECT_FALSE(tries.IsHopeless(free + absl::Minutes(1)));
  EXPECT_TRUE(tries.IsHopeless(free + absl::Seconds(61)));
}

TEST(LastTriesTest, AnotherEndHasTimeOfItsOwn) {
  LastTries tries;
  tries.Begin(absl::nullopt, kEnd);
  EXPECT_TRUE(tries.IsDue(kEnd));
  tries.Failed(absl::UnavailableError("the disk is full"), kEnd);
  tries.Stop();
  EXPECT_FALSE(tries.begun());
  const absl::Time later = kEnd + absl::Hours(1);
  tries.Begin(absl::nullopt, later);
  EXPECT_TRUE(tries.IsDue(later));
  EXPECT_FALSE(tries.IsHopeless(later + absl::Minutes(1)));
}

}  // namespace
}  // namespace millrace::coordinator
