#include "common/checkpoint/checkpoint_lineage.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

CheckpointManifest Saved(uint64_t number, const std::string& job_id,
                         const std::vector<std::string>& earlier = {},
                         absl::optional<uint64_t> restored = {}) {
  CheckpointManifest manifest;
  manifest.set_number(number);
  manifest.set_job_id(job_id);
  for (const std::string& id : earlier) manifest.add_earlier_job_ids(id);
  manifest.mutable_spec()->mutable_checkpoints()->set_directory("/run");
  if (restored) {
    manifest.mutable_spec()->mutable_restore()->set_directory("/run/");
    manifest.mutable_spec()->mutable_restore()->set_checkpoint(*restored);
  }
  return manifest;
}

// Numbers of those that led up to the first.
std::vector<uint64_t> LineOf(const std::vector<CheckpointManifest>& manifests) {
  std::vector<CheckpointDirectory::Listed> listed;
  for (auto manifest = manifests.rbegin(); manifest != manifests.rend(); ++manifest) {
    listed.push_back({manifest->number(), *manifest});
  }
  std::vector<uint64_t> numbers;
  for (const CheckpointDirectory::Listed& one : LeadingUpTo(0, listed)) {
    numbers.push_back(one.number);
  }
  return numbers;
}

TEST(CheckpointLineageTest, WhatAJobWentBackBehindDidNotLeadToIt) {
  EXPECT_THAT(LineOf({Saved(10, "b", {"a"}, 7), Saved(9, "a"), Saved(8, "a"), Saved(7, "a"),
                      Saved(6, "a")}),
              ElementsAre(10, 7, 6));
  EXPECT_THAT(
      LineOf({Saved(11, "b", {"a"}, 7), Saved(10, "b", {"a"}, 7), Saved(9, "a"), Saved(6, "a")}),
      ElementsAre(11, 10, 6));
}

// Of the job that went back the best state was written after a further one.
TEST(CheckpointLineageTest, WhatIsFurtherThanWhereAJobWentBackToDidNotLeadToIt) {
  CheckpointManifest going_on = Saved(6, "b", {"a"}, 5);
  going_on.set_step(110);
  CheckpointManifest best = Saved(5, "a");
  best.set_step(100);
  CheckpointManifest further = Saved(4, "a");
  further.set_step(120);
  CheckpointManifest before = Saved(3, "a");
  before.set_step(60);
  EXPECT_THAT(LineOf({going_on, best, further, before}), ElementsAre(6, 5, 3));
  EXPECT_THAT(LineOf({going_on, further, before}), ElementsAre(6, 3)) << "the best was removed";
  further.set_step(105);
  EXPECT_THAT(LineOf({going_on, best, further, before}), ElementsAre(6, 5, 3));
  EXPECT_THAT(LineOf({best, further, before}), ElementsAre(5, 4, 3)) << "before it went back";
}

TEST(CheckpointLineageTest, JobsBeforeMayHaveGoneBackAsWell) {
  EXPECT_THAT(LineOf({Saved(10, "c", {"a", "b"}, 8), Saved(9, "b", {"a"}, 5),
                      Saved(8, "b", {"a"}, 5), Saved(7, "a"), Saved(6, "a"), Saved(5, "a")}),
              ElementsAre(10, 8, 5));
}

TEST(CheckpointLineageTest, OneThatTookTheNewestGoesOnFromAllOfItsJobs) {
  EXPECT_THAT(LineOf({Saved(3, "c", {"b"}, 0), Saved(2, "a"), Saved(1, "b")}), ElementsAre(3, 1));
}

TEST(CheckpointLineageTest, AJobThatBeganElsewhereGoesOnFromNoneHere) {
  CheckpointManifest newest = Saved(3, "b", {"a"}, 2);
  newest.mutable_spec()->mutable_restore()->set_directory("/elsewhere");
  EXPECT_THAT(LineOf({newest, Saved(2, "a")}), ElementsAre(3));
}

CheckpointDirectory::Listed At(uint64_t number, uint64_t step) {
  CheckpointManifest manifest = Saved(number, "a");
  manifest.set_step(step);
  return {number, manifest};
}

std::vector<uint64_t> NumbersOf(const std::vector<CheckpointDirectory::Listed>& listed) {
  std::vector<uint64_t> numbers;
  for (const CheckpointDirectory::Listed& one : listed) numbers.push_back(one.number);
  return numbers;
}

TEST(CheckpointLineageTest, TheFurthestIsNotAlwaysTheNewest) {
  EXPECT_THAT(NumbersOf(FurthestFirst({At(1, 10), At(2, 40), At(3, 30), At(4, 40), At(5, 20)})),
              ElementsAre(4, 2, 3, 5, 1));
  EXPECT_THAT(NumbersOf(FurthestFirst({At(2, 40), At(1, 10)})), ElementsAre(2, 1));
}

TEST(CheckpointLineageTest, WhatCannotBeReadIsPassedOverOnlyForOlderOnes) {
  const CheckpointDirectory::Listed damaged{3, absl::DataLossError("damaged")};
  EXPECT_THAT(NumbersOf(FurthestFirst({At(1, 10), At(2, 40), damaged, At(4, 30)})),
              ElementsAre(3, 2, 4, 1));
  EXPECT_THAT(NumbersOf(FurthestFirst({At(1, 10), damaged, At(4, 30)})), ElementsAre(4, 3, 1));
}

}  // namespace
}  // namespace millrace
