#include "worker/split_mix.h"

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

// The first numbers of S. Vigna's splitmix64.c (public domain) after the seed 1234567.
TEST(SplitMixTest, GivesTheNumbersOfTheReference) {
  EXPECT_EQ(SplitMix64(1234567), 6457827717110365317u);
  EXPECT_EQ(SplitMix64(1234567 + kGoldenRatio), 3203168211198807973u);
  EXPECT_EQ(SplitMix64(1234567 + 2 * kGoldenRatio), 9817491932198370423u);
}

}  // namespace
}  // namespace millrace::worker
