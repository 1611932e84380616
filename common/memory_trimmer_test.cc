#include "common/memory_trimmer.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

class MemoryTrimmerTest : public ::testing::Test {
 protected:
  // Looks once a second for a while.
  void Look(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end; now_ += absl::Seconds(1)) {
      trimmer_.Look(now_);
    }
  }

  uint64_t free_ = 0;
  int trims_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  MemoryTrimmer trimmer_{[this] { return free_; }, [this] { ++trims_; }};
};

TEST_F(MemoryTrimmerTest, GivesBackWhatWasFreeForAMinute) {
  free_ = MemoryTrimmer::kKeptBytes + 1;
  Look(absl::Seconds(59));
  EXPECT_EQ(trims_, 0);
  Look(absl::Seconds(12));
  EXPECT_EQ(trims_, 1);
}

TEST_F(MemoryTrimmerTest, DoesSoOnceAMinute) {
  free_ = MemoryTrimmer::kKeptBytes + 1;
  Look(absl::Minutes(10));
  EXPECT_LE(trims_, 10);
  EXPECT_GE(trims_, 5);
}

TEST_F(MemoryTrimmerTest, LeavesAlone) {
  free_ = MemoryTrimmer::kKeptBytes;
  Look(absl::Minutes(10));
  EXPECT_EQ(trims_, 0) << "what is not much";
  for (int i = 0; i < 20; ++i) {
    free_ = i % 2 == 0 ? 10 * MemoryTrimmer::kKeptBytes : 0;
    Look(absl::Seconds(30));
  }
  EXPECT_EQ(trims_, 0) << "what is used again";
}

TEST_F(MemoryTrimmerTest, MallocSaysWhatIsFree) {
  MemoryTrimmer::TrimMalloc();
  EXPECT_LT(MemoryTrimmer::MallocFreeBytes(), uint64_t{1} << 40);
}

}  // namespace
}  // namespace millrace
