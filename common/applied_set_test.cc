#include "common/applied_set.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Small enough for gaps to open and close often.
constexpr uint64_t kSteps = 24;

std::set<uint64_t> Elements(const AppliedSet& set) {
  std::set<uint64_t> elements;
  for (uint64_t step = 0; step < 2 * kSteps; ++step) {
    if (set.Contains(step)) elements.insert(step);
  }
  return elements;
}

// The watermark and the steps above it are determined by the elements.
void ExpectCanonical(const AppliedSet& set) {
  EXPECT_FALSE(set.Contains(set.watermark()));
  for (const uint64_t step : set.above()) EXPECT_GT(step, set.watermark());
  EXPECT_EQ(set.size(), Elements(set).size());
}

AppliedSet RandomSet(std::mt19937* random) {
  AppliedSet set;
  const size_t inserts = (*random)() % (2 * kSteps);
  for (size_t i = 0; i < inserts; ++i) set.Insert((*random)() % kSteps);
  return set;
}

StepSet Proto(uint64_t watermark, const std::vector<uint64_t>& above) {
  StepSet proto;
  proto.set_watermark(watermark);
  proto.mutable_above()->Add(above.begin(), above.end());
  return proto;
}

TEST(AppliedSetTest, BeginsEmpty) {
  const AppliedSet set;
  EXPECT_EQ(set.size(), 0u);
  EXPECT_EQ(set.watermark(), 0u);
  EXPECT_FALSE(set.Contains(0));
}

TEST(AppliedSetTest, WatermarkMovesWhenTheGapCloses) {
  AppliedSet set;
  EXPECT_TRUE(set.Insert(1));
  EXPECT_TRUE(set.Insert(2));
  EXPECT_TRUE(set.Insert(4));
  EXPECT_EQ(set.watermark(), 0u);
  EXPECT_TRUE(set.Insert(0));
  EXPECT_EQ(set.watermark(), 3u);
  EXPECT_THAT(set.above(), ElementsAre(4));
  EXPECT_TRUE(set.Insert(3));
  EXPECT_EQ(set.watermark(), 5u);
  EXPECT_THAT(set.above(), IsEmpty());
}

TEST(AppliedSetTest, StepIsInsertedOnce) {
  AppliedSet set;
  EXPECT_TRUE(set.Insert(3));
  EXPECT_FALSE(set.Insert(3));
  EXPECT_TRUE(set.Insert(0));
  EXPECT_FALSE(set.Insert(0));
  EXPECT_EQ(set.size(), 2u);
}

class AppliedSetModelTest : public ::testing::TestWithParam<unsigned> {};

INSTANTIATE_TEST_SUITE_P(Seeds, AppliedSetModelTest, ::testing::Range(1u, 51u));

TEST_P(AppliedSetModelTest, BehavesAsASetOfNumbers) {
  std::mt19937 random(GetParam());
  AppliedSet set;
  std::set<uint64_t> model;
  for (int i = 0; i < 60; ++i) {
    const uint64_t step = random() % kSteps;
    EXPECT_EQ(set.Insert(step), model.insert(step).second);
    EXPECT_EQ(Elements(set), model);
    ExpectCanonical(set);
    const absl::StatusOr<AppliedSet> copy = AppliedSet::FromProto(set.ToProto());
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_TRUE(*copy == set);
  }
}

TEST_P(AppliedSetModelTest, IntersectionAndUnionAreThoseOfSets) {
  std::mt19937 random(GetParam());
  for (int i = 0; i < 60; ++i) {
    const AppliedSet a = RandomSet(&random);
    const AppliedSet b = RandomSet(&random);
    const std::set<uint64_t> in_a = Elements(a);
    const std::set<uint64_t> in_b = Elements(b);
    std::set<uint64_t> in_both;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                          std::inserter(in_both, in_both.end()));
    std::set<uint64_t> in_either = in_a;
    in_either.insert(in_b.begin(), in_b.end());

    const AppliedSet intersection = AppliedSet::Intersection(a, b);
    EXPECT_EQ(Elements(intersection), in_both);
    ExpectCanonical(intersection);
    const AppliedSet both = AppliedSet::Union(a, b);
    EXPECT_EQ(Elements(both), in_either);
    ExpectCanonical(both);
    EXPECT_TRUE(intersection == AppliedSet::Intersection(b, a));
    EXPECT_TRUE(both == AppliedSet::Union(b, a));
    EXPECT_EQ(a == b, in_a == in_b);
  }
}

TEST(AppliedSetTest, ProtoHasWatermarkAndTheStepsAboveInOrder) {
  AppliedSet set;
  for (const uint64_t step : {9, 0, 1, 7}) set.Insert(step);
  const StepSet proto = set.ToProto();
  EXPECT_EQ(proto.watermark(), 2u);
  EXPECT_THAT(proto.above(), ElementsAre(7, 9));
}

TEST(AppliedSetTest, RefusesProtosThatAreNotInOrder) {
  for (const StepSet& proto : {Proto(5, {5}), Proto(5, {3}), Proto(0, {4, 4}), Proto(0, {6, 2})}) {
    const absl::Status status = AppliedSet::FromProto(proto).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << proto.ShortDebugString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("StepSet.above"));
  }
}

// The step after it was 0, so it was there and in no range.
TEST(AppliedSetTest, RefusesAStepAfterWhichThereIsNone) {
  const uint64_t last = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(AppliedSet::FromProto(Proto(0, {last})).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(AppliedSet::FromProto(Proto(0, {last - 1})).ok());
}

TEST(AppliedSetTest, LargeNumbersTakeNoSpace) {
  const uint64_t many = uint64_t{1} << 60;
  const absl::StatusOr<AppliedSet> set = AppliedSet::FromProto(Proto(many, {many + 2}));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(set->Contains(many - 1));
  EXPECT_FALSE(set->Contains(many));
  EXPECT_EQ(set->size(), many + 1);
}

}  // namespace
}  // namespace millrace
