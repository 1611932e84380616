// Which checkpoints go as others come.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CheckpointsToRemoveTest, TheNewestStayAndSomeForEver) {
  std::vector<WrittenCheckpoint> written;
  const absl::Time start = absl::FromUnixSeconds(1'800'000'000);
  for (uint64_t i = 1; i <= 8; ++i) written.push_back({i, start + absl::Hours(i)});
  EXPECT_THAT(CheckpointsToRemove(written, 3, absl::ZeroDuration()), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(CheckpointsToRemove(written, 0, absl::ZeroDuration()),
              ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(CheckpointsToRemove(written, 100, absl::ZeroDuration()), IsEmpty());
  EXPECT_THAT(CheckpointsToRemove(written, 1, absl::Hours(3)), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(CheckpointsToRemove({}, 3, absl::Hours(3)), IsEmpty());
}

TEST(CheckpointsToRemoveTest, SomeDoNotCount) {
  std::vector<WrittenCheckpoint> written;
  const absl::Time start = absl::FromUnixSeconds(1'800'000'000);
  for (uint64_t i = 1; i <= 8; ++i) written.push_back({i, start + absl::Hours(i)});
  for (const size_t i : {0, 4, 6}) written[i].counts = false;
  EXPECT_THAT(CheckpointsToRemove(written, 2, absl::ZeroDuration()), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(CheckpointsToRemove(written, 3, absl::ZeroDuration()), ElementsAre(1, 2, 3));
  EXPECT_THAT(CheckpointsToRemove(written, 5, absl::ZeroDuration()), ElementsAre(1));
  EXPECT_THAT(CheckpointsToRemove(written, 6, absl::ZeroDuration()), IsEmpty());
  EXPECT_THAT(CheckpointsToRemove(written, 1, absl::Hours(3)), ElementsAre(1, 3, 4, 5, 7));
  for (WrittenCheckpoint& one : written) one.counts = false;
  EXPECT_THAT(CheckpointsToRemove(written, 1, absl::ZeroDuration()), IsEmpty());
}

// All were opened for each new one, however many there were that stay for ever.
TEST(CheckpointsToRemoveTest, OnlyThoseOnWhichItDependsAreAskedWhetherTheyAreWhole) {
  std::vector<WrittenCheckpoint> written;
  const absl::Time start = absl::FromUnixSeconds(1'800'000'000);
  for (uint64_t i = 1; i <= 8; ++i) written.push_back({i, start + absl::Hours(i)});
  std::set<uint64_t> damaged;
  std::vector<uint64_t> asked;
  const auto to_remove = [&](uint32_t keep, absl::Duration keep_one_every) {
    asked.clear();
    return CheckpointsToRemove(written, keep, keep_one_every, [&](uint64_t number) {
      asked.push_back(number);
      return !damaged.contains(number);
    });
  };
  EXPECT_THAT(to_remove(8, absl::ZeroDuration()), IsEmpty());
  EXPECT_THAT(asked, IsEmpty());
  EXPECT_THAT(to_remove(2, absl::ZeroDuration()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(asked, ElementsAre(8, 7));
  EXPECT_THAT(to_remove(1, absl::Hours(1)), IsEmpty());
  EXPECT_THAT(asked, ElementsAre(8));
  EXPECT_THAT(to_remove(1, absl::Hours(3)), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(asked, ElementsAre(8, 1, 4));

  damaged = {1, 5, 7};
  EXPECT_THAT(to_remove(2, absl::ZeroDuration()), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(asked, ElementsAre(8, 7, 6));
  EXPECT_THAT(to_remove(1, absl::Hours(3)), ElementsAre(1, 3, 4, 5, 7));
  EXPECT_THAT(asked, ElementsAre(8, 1, 2, 5, 6));
  written[1].counts = false;
  EXPECT_THAT(to_remove(1, absl::Hours(3)), ElementsAre(1, 2, 4, 5, 7));
  EXPECT_THAT(asked, ElementsAre(8, 1, 3, 6));
}

// None stayed until the time of the one whose clock was ahead had come.
TEST(CheckpointsToRemoveTest, AClockThatWasAheadCostsNone) {
  std::vector<WrittenCheckpoint> written;
  const absl::Time start = absl::FromUnixSeconds(1'800'000'000);
  for (uint64_t i = 1; i <= 8; ++i) written.push_back({i, start + absl::Hours(i)});
  written[1].written += absl::Hours(10'000);
  EXPECT_THAT(CheckpointsToRemove(written, 1, absl::Hours(3)), ElementsAre(4, 5, 7));
}

// Whatever goes on the way, those that stay for ever are the same.
TEST(CheckpointsToRemoveTest, WhatStaysForEverStaysAsOthersCome) {
  std::vector<WrittenCheckpoint> written;
  const absl::Time start = absl::FromUnixSeconds(1'800'000'000);
  for (uint64_t i = 1; i <= 100; ++i) {
    written.push_back({i, start + i * absl::Minutes(10)});
    for (const uint64_t number : CheckpointsToRemove(written, 2, absl::Hours(3))) {
      written.erase(std::find_if(written.begin(), written.end(),
                                 [number](const auto& one) { return one.number == number; }));
    }
  }
  std::vector<uint64_t> numbers;
  for (const WrittenCheckpoint& one : written) numbers.push_back(one.number);
  EXPECT_THAT(numbers, ElementsAre(1, 19, 37, 55, 73, 91, 99, 100));
}

}  // namespace
}  // namespace millrace
