#include "worker/device/cuda/id_sorter.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/seed/test_seed.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAreArray;

std::vector<IdOfRow> Sorted(std::vector<IdOfRow> ids) {
  std::stable_sort(ids.begin(), ids.end(),
                   [](const IdOfRow& a, const IdOfRow& b) { return a.id < b.id; });
  return ids;
}

// Ids in [least, most], in rows that tell where they came.
std::vector<IdOfRow> RandomIds(size_t count, int64_t least, int64_t most, std::mt19937_64* random) {
  std::uniform_int_distribution<int64_t> any(least, most);
  std::vector<IdOfRow> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back({any(*random), static_cast<int64_t>(i)});
  return ids;
}

TEST(IdSorterTest, SortsByIdAndKeepsTheOrderOfEqualOnes) {
  std::mt19937_64 random(TestSeed());
  constexpr auto kLimits = std::numeric_limits<int64_t>();
  IdSorter sorter;
  for (const auto& [least, most] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 0},
                                                {7, 7},
                                                {0, 1},
                                                {0, 2047},
                                                {0, 2048},
                                                {5, 2052},
                                                {5, 2053},
                                                {0, 1 << 22},
                                                {-9, 9},
                                                {kLimits.max() - 3, kLimits.max()},
                                                {kLimits.min(), kLimits.max()}}) {
    for (const size_t count : {0, 1, 2, 3, 100, 5000, 40}) {
      std::vector<IdOfRow> ids = RandomIds(count, least, most, &random);
      const std::vector<IdOfRow> sorted = Sorted(ids);
      EXPECT_THAT(sorter.Sort(absl::MakeSpan(ids)), ElementsAreArray(sorted))
          << count << " ids from " << least << " to " << most;
    }
  }
}

}  // namespace
}  // namespace millrace::worker
