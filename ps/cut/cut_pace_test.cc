#include "ps/cut/cut_pace.h"

#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

const absl::Time kStart = absl::UnixEpoch();

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

TEST(CutPaceTest, NothingIsDueWhileNothingChanges) {
  CutPace pace(absl::Seconds(10));
  EXPECT_EQ(pace.due(), absl::InfiniteFuture());
  pace.Changed(At(3));
  pace.Taken();
  EXPECT_EQ(pace.due(), absl::InfiniteFuture());
}

// The first cut came a whole period after a shard was opened: a server that was killed more often
// than that never got on.
TEST(CutPaceTest, FirstCutComesSoonAndTheOthersMoreAndMoreSeldom) {
  CutPace pace(absl::Seconds(10));
  absl::Time now = At(100);
  std::vector<double> begins;
  for (int i = 0; i < 8; ++i) {
    pace.Changed(now);
    now = pace.due();
    begins.push_back(absl::ToDoubleSeconds(now - kStart));
    pace.Taken();
    pace.Wrote(now, now);
    pace.Changed(now);
  }
  EXPECT_THAT(begins, ElementsAre(100.5, 101.5, 103.5, 107.5, 115.5, 125.5, 135.5, 145.5));
}

TEST(CutPaceTest, ChangeAfterALongRestIsWrittenSoon) {
  CutPace pace(absl::Seconds(10));
  pace.Wrote(At(0), At(0));
  pace.Changed(At(1000));
  EXPECT_EQ(pace.due(), At(1000.5));
}

// Every cut wrote the whole state every period, however long that took.
TEST(CutPaceTest, CutsHaveATenthOfTheTime) {
  CutPace pace(absl::Seconds(1));
  pace.Wrote(At(0), At(5));
  pace.Changed(At(5));
  EXPECT_EQ(pace.due(), At(50));
}

TEST(CutPaceTest, PausesAfterFailuresGrowAndEndWithASuccess) {
  CutPace pace(absl::Seconds(10));
  absl::Time now = At(0);
  std::vector<double> pauses;
  for (int i = 0; i < 7; ++i) {
    pace.Failed(now);
    pauses.push_back(absl::ToDoubleSeconds(pace.allowed() - now));
    now = pace.allowed();
  }
  EXPECT_THAT(pauses, ElementsAre(1, 2, 4, 8, 16, 30, 30));
  pace.Wrote(now, now);
  pace.Failed(now);
  EXPECT_EQ(pace.allowed(), now + absl::Seconds(1));
}

TEST(CutPaceTest, PeriodBelowASecondIsKept) {
  CutPace pace(absl::Milliseconds(100));
  pace.Changed(At(0));
  EXPECT_EQ(pace.due(), At(0.1));
  pace.Wrote(At(0.1), At(0.1));
  pace.Changed(At(0.1));
  EXPECT_EQ(pace.due(), At(0.2));
}

}  // namespace
}  // namespace millrace::ps
