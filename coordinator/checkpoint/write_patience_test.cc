#include "coordinator/checkpoint/write_patience.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

TEST(WritePatienceTest, IsTenMinutesOfAJobOfWhichNothingIsKnown) {
  const WritePatience patience(0);
  EXPECT_EQ(patience.Usual(), absl::Minutes(10));
  EXPECT_EQ(patience.AtLeast(absl::Minutes(1)), absl::Minutes(1));
  EXPECT_EQ(patience.UntilTold(), absl::Minutes(5));
}

TEST(WritePatienceTest, LargeJobsHaveAsLongAsASlowDiskTakes) {
  const WritePatience patience(uint64_t{3600} << 20);
  EXPECT_EQ(patience.Usual(), absl::Hours(1));
  EXPECT_EQ(patience.AtLeast(absl::Minutes(1)), absl::Hours(1));
}

TEST(WritePatienceTest, FollowsWhatTheNewestTook) {
  WritePatience patience(0);
  patience.SetNewest(absl::Minutes(4));
  EXPECT_EQ(patience.Usual(), absl::Minutes(16));
  EXPECT_EQ(patience.AtLeast(absl::Minutes(1)), absl::Minutes(16));
  EXPECT_EQ(patience.UntilTold(), absl::Minutes(8));
}

TEST(WritePatienceTest, IsTwiceAsLongAfterOneThatWasGivenUpUntilOneWorks) {
  WritePatience patience(0);
  patience.GaveUp(absl::Minutes(11));
  EXPECT_EQ(patience.Usual(), absl::Minutes(22));
  EXPECT_EQ(patience.AtLeast(absl::Minutes(1)), absl::Minutes(1));
  patience.SetNewest(absl::Minutes(1));
  EXPECT_EQ(patience.Usual(), absl::Minutes(22));
  patience.Wrote(absl::Minutes(1));
  EXPECT_EQ(patience.Usual(), absl::Minutes(10));
}

}  // namespace
}  // namespace millrace::coordinator
