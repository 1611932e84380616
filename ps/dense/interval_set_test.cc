#include "ps/dense/interval_set.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "testing/seed/test_seed.h"

namespace millrace::ps {
namespace {

TEST(IntervalSetTest, TouchingIntervalsBecomeOne) {
  IntervalSet set;
  EXPECT_TRUE(set.Insert(10, 20));
  EXPECT_TRUE(set.Insert(30, 40));
  EXPECT_EQ(set.intervals(), 2);
  EXPECT_TRUE(set.Insert(20, 30));
  EXPECT_EQ(set.intervals(), 1);
  EXPECT_EQ(set.size(), 30);
}

TEST(IntervalSetTest, OverlapIsRefusedAndChangesNothing) {
  IntervalSet set;
  ASSERT_TRUE(set.Insert(10, 20));
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
           {10, 20}, {5, 11}, {19, 25}, {12, 13}, {0, 100}, {10, 11}, {19, 20}}) {
    EXPECT_FALSE(set.Insert(begin, end)) << begin << " " << end;
  }
  EXPECT_EQ(set.size(), 10);
  EXPECT_TRUE(set.Insert(15, 15)) << "an empty one overlaps nothing";
  EXPECT_EQ(set.size(), 10);
}

TEST(IntervalSetTest, AgreesWithABitmap) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    IntervalSet set;
    std::vector<bool> bits(100);
    while (set.size() < bits.size()) {
      const size_t begin = random() % bits.size();
      const size_t end = std::min(bits.size(), begin + random() % 10);
      const bool free =
          std::find(bits.begin() + static_cast<long>(begin), bits.begin() + static_cast<long>(end),
                    true) == bits.begin() + static_cast<long>(end);
      ASSERT_EQ(set.Insert(begin, end), free);
      if (free)
        std::fill(bits.begin() + static_cast<long>(begin), bits.begin() + static_cast<long>(end),
                  true);
      ASSERT_EQ(set.size(), static_cast<uint64_t>(std::count(bits.begin(), bits.end(), true)));
    }
    EXPECT_EQ(set.intervals(), 1);
  }
}

TEST(IntervalSetTest, ContainsWhatIsThereWholly) {
  IntervalSet set;
  EXPECT_FALSE(set.Contains(0, 1));
  ASSERT_TRUE(set.Insert(10, 20));
  ASSERT_TRUE(set.Insert(20, 30));
  EXPECT_TRUE(set.Contains(10, 30));
  EXPECT_TRUE(set.Contains(12, 13));
  EXPECT_FALSE(set.Contains(9, 11));
  EXPECT_FALSE(set.Contains(29, 31));
  EXPECT_FALSE(set.Contains(30, 31));
}

}  // namespace
}  // namespace millrace::ps
