#include "common/wire/rows.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Rows of 4 elements; the range begins within row 2 and ends within row 5.
constexpr uint64_t kWidth = 4;
constexpr ElementRange kRange = {10, 12};

TEST(RowsTest, RowsCountAsFarAsTheyAreInTheRange) {
  const std::vector<uint64_t> rows = {2, 3, 5};
  EXPECT_EQ(CountRowElements(rows, kWidth, kRange).value(), 2u + 4u + 2u);
  EXPECT_EQ(CountRowElements({}, kWidth, kRange).value(), 0u);
  EXPECT_EQ(CountRowElements({}, kWidth, {10, 0}).value(), 0u);
  const ElementRange first = PartOfRow(2, kWidth, kRange);
  EXPECT_EQ(first.begin, 0u);
  EXPECT_EQ(first.count, 2u);
  const ElementRange last = PartOfRow(5, kWidth, kRange);
  EXPECT_EQ(last.begin, 10u);
  EXPECT_EQ(last.count, 2u);
}

TEST(RowsTest, RowsOfAVariableAreAscendingAndWhole) {
  EXPECT_TRUE(AreRowsOf({kWidth, {}}, 0));
  EXPECT_TRUE(AreRowsOf({kWidth, {0, 3}}, 16));
  EXPECT_FALSE(AreRowsOf({kWidth, {0, 3}}, 15));
  EXPECT_FALSE(AreRowsOf({kWidth, {3, 3}}, 16));
  EXPECT_FALSE(AreRowsOf({kWidth, {3, 2}}, 16));
}

TEST(RowsTest, RowsThatFollowOneAnotherAreOneRun) {
  const std::vector<ElementRange> runs = RunsOf(std::vector<uint64_t>{2, 3, 5}, kWidth, kRange);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].begin, 0u);
  EXPECT_EQ(runs[0].count, 6u);
  EXPECT_EQ(runs[1].begin, 10u);
  EXPECT_EQ(runs[1].count, 2u);
  EXPECT_THAT(RunsOf({}, kWidth, kRange), IsEmpty());
}

TEST(RowsTest, ARowMayBeWiderThanTheRange) {
  const std::vector<uint64_t> rows = {0};
  EXPECT_EQ(CountRowElements(rows, ~uint64_t{0}, kRange).value(), 12u);
  EXPECT_EQ(CountRowElements(rows, 1000, kRange).value(), 12u);
}

TEST(RowsTest, WrongRowsAreNamed) {
  const auto error = [](const std::vector<uint64_t>& rows, uint64_t width, ElementRange range) {
    const auto count = CountRowElements(rows, width, range);
    EXPECT_EQ(count.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(count.status().message());
  };
  EXPECT_THAT(error({2}, 0, kRange), HasSubstr("width: 0"));
  EXPECT_THAT(error({2, 2}, kWidth, kRange), HasSubstr("rows[1]: 2 after 2"));
  EXPECT_THAT(error({3, 2}, kWidth, kRange), HasSubstr("rows[1]: 2 after 3"));
  EXPECT_THAT(error({1}, kWidth, kRange), HasSubstr("rows[0]: 1; must be from 2 to 5"));
  EXPECT_THAT(error({2, 6}, kWidth, kRange), HasSubstr("rows[1]: 6; must be from 2 to 5"));
  EXPECT_THAT(error({5}, kWidth, {8, 12}), HasSubstr("rows[0]: 5; must be from 2 to 4"));
  EXPECT_THAT(error({~uint64_t{0}}, kWidth, kRange), HasSubstr("must be from 2 to 5"));
  EXPECT_THAT(error({0}, kWidth, {0, 0}), HasSubstr("of no elements"));
}

TEST(RowsTest, RowsInARangeAreThoseWithElementsThere) {
  const std::vector<uint64_t> rows = {0, 1, 2, 4, 5, 6, 1000};
  EXPECT_THAT(RowsIn(rows, kWidth, kRange), ElementsAre(2, 4, 5));
  EXPECT_THAT(RowsIn(rows, kWidth, {12, 4}), IsEmpty());
  EXPECT_THAT(RowsIn(rows, kWidth, {12, 0}), IsEmpty());
  EXPECT_THAT(RowsIn(rows, kWidth, {0, 1}), ElementsAre(0));
}

}  // namespace
}  // namespace millrace
