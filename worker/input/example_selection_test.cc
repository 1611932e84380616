#include "worker/input/example_selection.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExampleSelection Part(double fraction, uint64_t seed, HoldOut::Part part) {
  millrace::Dataset set;
  set.mutable_hold_out()->set_fraction(fraction);
  set.mutable_hold_out()->set_seed(seed);
  set.mutable_hold_out()->set_part(part);
  return ExampleSelection(set);
}

std::vector<uint64_t> Selected(const ExampleSelection& selection, uint64_t end) {
  std::vector<uint64_t> selected;
  for (uint64_t example = 0; example < end; ++example) {
    if (selection.Contains(example)) selected.push_back(example);
  }
  return selected;
}

TEST(ExampleSelectionTest, AllExamplesWhereNothingIsSaid) {
  EXPECT_THAT(Selected(ExampleSelection(), 3), ElementsAre(0, 1, 2));
  EXPECT_EQ(ExampleSelection().CheckCount(3, 3, "f", "data.train"), absl::OkStatus());
}

TEST(ExampleSelectionTest, RangeAndHoldOutTogether) {
  millrace::Dataset set;
  set.mutable_range()->set_begin(1);
  set.mutable_range()->set_end(5);
  EXPECT_THAT(Selected(ExampleSelection(set), 9), ElementsAre(1, 2, 3, 4));
  set.mutable_hold_out()->set_fraction(0.5);
  set.mutable_hold_out()->set_part(HoldOut::HELD_OUT);
  EXPECT_THAT(Selected(ExampleSelection(set), 9), ElementsAre(1, 4));
  set.mutable_hold_out()->set_part(HoldOut::REST);
  EXPECT_THAT(Selected(ExampleSelection(set), 9), ElementsAre(2, 3));
}

TEST(ExampleSelectionTest, PartsAreDisjointAndComplete) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}}) {
    const ExampleSelection held_out = Part(0.1, seed, HoldOut::HELD_OUT);
    const ExampleSelection rest = Part(0.1, seed, HoldOut::REST);
    int count = 0;
    for (uint64_t example = 0; example < 100'000; ++example) {
      ASSERT_NE(held_out.Contains(example), rest.Contains(example)) << example;
      count += held_out.Contains(example);
    }
    // 10,000 on average; the standard deviation is 95.
    EXPECT_NEAR(count, 10'000, 500) << seed;
  }
}

TEST(ExampleSelectionTest, LargerFractionHoldsOutMoreOfTheSame) {
  const std::vector<uint64_t> few = Selected(Part(0.1, 3, HoldOut::HELD_OUT), 1000);
  const std::vector<uint64_t> many = Selected(Part(0.2, 3, HoldOut::HELD_OUT), 1000);
  EXPECT_LT(few.size(), many.size());
  EXPECT_THAT(many, ::testing::IsSupersetOf(few));
}

TEST(ExampleSelectionTest, FilesWithoutExamplesAreNamedWhateverTheRange) {
  millrace::Dataset set;
  for (const uint64_t end : {0, 5}) {
    set.mutable_range()->set_end(end);
    EXPECT_EQ(std::string(ExampleSelection(set).CheckCount(0, 0, "a.bin", "data.train").message()),
              "data.train: a.bin: holds no examples; must hold at least one");
  }
}

TEST(ExampleSelectionTest, EmptyPartIsRefused) {
  const absl::Status status =
      Part(0.1, 7, HoldOut::HELD_OUT).CheckCount(4, 0, "a.bin", "data.evaluate");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data.evaluate.hold_out: no example of a.bin is in the part HELD_OUT"));
}

}  // namespace
}  // namespace millrace::worker
