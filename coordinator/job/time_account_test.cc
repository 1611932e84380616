#include "coordinator/job/time_account.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/proto_duration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

absl::Time At(int seconds) { return kStart + absl::Seconds(seconds); }

absl::Duration SumOf(const TimeSpent& spent) {
  absl::Duration sum = FromProto(spent.training()) + FromProto(spent.running_again()) +
                       FromProto(spent.recovering()) + FromProto(spent.evaluating()) +
                       FromProto(spent.checkpointing());
  for (const WaitedFor& waited : spent.waiting()) sum += FromProto(waited.time());
  return sum;
}

TEST(TimeAccountTest, EachMomentIsCountedOnceForWhatItWentInto) {
  TimeAccount account;
  account.Start(At(0));
  account.Settle(At(10), TimeUse::kTraining);
  account.Settle(At(15), TimeUse::kWaiting, "worker-1");
  account.Begin(At(16), TimeUse::kRecovering);
  account.Begin(At(20), TimeUse::kRunningAgain);
  account.Begin(At(21), TimeUse::kEvaluating);
  account.Begin(At(23), TimeUse::kCheckpointing);
  account.Begin(At(26), TimeUse::kTraining);
  const TimeSpent spent = account.At(At(30));
  EXPECT_EQ(spent.wall().seconds(), 30);
  EXPECT_EQ(spent.training().seconds(), 14);
  EXPECT_EQ(spent.recovering().seconds(), 4);
  EXPECT_EQ(spent.running_again().seconds(), 1);
  EXPECT_EQ(spent.evaluating().seconds(), 2);
  EXPECT_EQ(spent.checkpointing().seconds(), 3);
  ASSERT_THAT(spent.waiting(), SizeIs(1));
  EXPECT_EQ(spent.waiting(0).whom(), "worker-1");
  EXPECT_EQ(spent.waiting(0).time().seconds(), 6);
  EXPECT_DOUBLE_EQ(spent.goodput(), 14.0 / 30);
}

// While somebody blocks, nobody looks; who looks next settles the time since then.
TEST(TimeAccountTest, WhatWasCountedIsNotSettledAnotherWay) {
  TimeAccount account;
  account.Start(At(0));
  account.Begin(At(3), TimeUse::kWaiting, "the last cut");
  account.Count(At(7));
  account.Settle(At(8), TimeUse::kTraining);
  const TimeSpent spent = account.At(At(8));
  EXPECT_EQ(spent.training().seconds(), 4);
  ASSERT_THAT(spent.waiting(), SizeIs(1));
  EXPECT_EQ(spent.waiting(0).time().seconds(), 4);
}

std::vector<std::pair<std::string, int64_t>> WaitingIn(const TimeSpent& spent) {
  std::vector<std::pair<std::string, int64_t>> waiting;
  for (const WaitedFor& waited : spent.waiting()) {
    waiting.emplace_back(waited.whom(), waited.time().seconds());
  }
  return waiting;
}

TEST(TimeAccountTest, WhoIsKnownLaterWasWaitedForAsLongAsItIsSaid) {
  TimeAccount account;
  account.Start(At(0));
  account.SettleGuess(At(10), "worker-0");
  account.SettleGuess(At(15), "worker-1");
  account.SettleGuess(At(17), "worker-0");
  EXPECT_THAT(WaitingIn(account.At(At(17))),
              ElementsAre(Pair("worker-0", 12), Pair("worker-1", 5)));
  account.SettleWaiting(At(19), "ps-1", /*since=*/At(14));
  EXPECT_THAT(WaitingIn(account.At(At(19))),
              ElementsAre(Pair("worker-0", 10), Pair("ps-1", 5), Pair("worker-1", 4)));
}

TEST(TimeAccountTest, WhatWasCountedBeforeAnythingElseStaysWithWhoWasGuessed) {
  TimeAccount account;
  account.Start(At(0));
  account.SettleGuess(At(2), "worker-0");
  account.Settle(At(3), TimeUse::kTraining);
  account.SettleGuess(At(6), "worker-0");
  account.Begin(At(6), TimeUse::kRecovering);
  account.SettleWaiting(At(10), "ps-1", /*since=*/At(0));
  EXPECT_THAT(WaitingIn(account.At(At(10))),
              UnorderedElementsAre(Pair("worker-0", 5), Pair("ps-1", 4)));
}

TEST(TimeAccountTest, NothingIsCountedBeforeTheStartAndAfterTheEnd) {
  TimeAccount account;
  account.Settle(At(0), TimeUse::kTraining);
  EXPECT_EQ(account.At(At(5)).wall().seconds(), 0);
  account.Start(At(10));
  account.End(At(12));
  account.Settle(At(20), TimeUse::kTraining);
  EXPECT_EQ(account.At(At(30)).wall().seconds(), 2);
}

TEST(TimeAccountTest, RestartedCoordinatorGoesOnCountingAndItsAbsenceIsAWait) {
  TimeAccount before;
  before.Start(At(0));
  before.Settle(At(7), TimeUse::kTraining);
  before.Settle(At(8), TimeUse::kWaiting, "worker-1");
  TimeAccount after;
  after.Resume(before.At(At(8)), At(0), At(20), "the coordinator");
  after.Begin(At(20), TimeUse::kTraining);
  const TimeSpent spent = after.At(At(21));
  EXPECT_EQ(spent.wall().seconds(), 21);
  EXPECT_EQ(spent.training().seconds(), 8);
  ASSERT_THAT(spent.waiting(), SizeIs(2));
  EXPECT_EQ(spent.waiting(0).whom(), "the coordinator");
  EXPECT_EQ(spent.waiting(0).time().seconds(), 12);
}

// As a machine does that starts before it has heard what time it is: nothing was counted any more.
TEST(TimeAccountTest, RestartedCoordinatorCountsThoughItsClockShowsLess) {
  TimeAccount before;
  before.Start(At(0));
  before.Settle(At(8), TimeUse::kTraining);
  TimeAccount after;
  after.Resume(before.At(At(8)), At(0), At(-3000), "the coordinator");
  after.Begin(At(-3000), TimeUse::kTraining);
  const TimeSpent spent = after.At(At(-2990));
  EXPECT_EQ(spent.wall().seconds(), 18);
  EXPECT_EQ(spent.training().seconds(), 18);
  EXPECT_THAT(spent.waiting(), SizeIs(0));
}

TEST(TimeAccountTest, TheRecordOfAnEndedJobStaysAsItIs) {
  TimeAccount before;
  before.Start(At(0));
  before.End(At(5));
  EXPECT_FALSE(before.running());
  EXPECT_EQ(before.At(At(99)).wall().seconds(), 5);
}

TEST(TimeAccountTest, ManyNamesAreToldAsOthers) {
  TimeAccount account;
  account.Start(At(0));
  for (int i = 0; i < 1000; ++i) {
    account.Settle(At(i + 1), TimeUse::kWaiting, absl::StrCat("worker-", i));
  }
  const TimeSpent spent = account.At(At(1000));
  ASSERT_THAT(spent.waiting(), SizeIs(20));
  EXPECT_EQ(spent.waiting(19).whom(), "others");
  EXPECT_EQ(spent.waiting(19).time().seconds(), 981) << "those whose names are not kept among them";
  EXPECT_EQ(SumOf(spent), absl::Seconds(1000));
}

// Random sequences, with restarts and with a clock that goes back.
TEST(TimeAccountTest, PartsAddUpToTheWallTimeExactly) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) {
      return std::uniform_int_distribution<uint32_t>(0, n - 1)(random);
    };
    TimeAccount account;
    account.Start(kStart);
    absl::Time now = kStart;
    absl::Time newest = kStart;
    for (int i = 0; i < 300; ++i) {
      now += absl::Nanoseconds(below(2'000'000'000)) / 3;
      if (below(20) == 0) now -= absl::Milliseconds(below(500));
      newest = std::max(newest, now);
      const auto use = static_cast<TimeUse>(below(6));
      const std::string whom = absl::StrCat("worker-", below(40));
      if (below(30) == 0) {
        TimeAccount next;
        next.Resume(account.At(newest), kStart, newest, "the coordinator");
        account = next;
      } else if (below(3) == 0) {
        account.SettleGuess(now, whom);
      } else if (below(4) == 0) {
        account.SettleWaiting(now, whom, now - absl::Milliseconds(below(3000)));
      } else if (below(2) == 0) {
        account.Begin(now, use, whom);
      } else {
        account.Settle(now, use, whom);
      }
      const TimeSpent spent = account.At(newest);
      ASSERT_EQ(SumOf(spent), FromProto(spent.wall()));
      const auto wall = absl::ToUnixNanos(newest) - absl::ToUnixNanos(kStart);
      ASSERT_EQ(absl::ToInt64Nanoseconds(FromProto(spent.wall())), wall);
      ASSERT_GE(spent.goodput(), 0);
      ASSERT_LE(spent.goodput(), 1);
    }
  }
}

TEST(TimeAccountTest, LongDescriptionsAreCutToTheName) {
  EXPECT_EQ(WhomInShort("ps-1 (127.0.0.1:2223), gone"), "ps-1");
  EXPECT_EQ(WhomInShort("worker-1, which has step 17,"), "worker-1");
  EXPECT_EQ(WhomInShort("the coordinator's journal (it cannot be written: no)"),
            "the coordinator's journal");
  EXPECT_EQ(WhomInShort("(x)"), "a member");
}

}  // namespace
}  // namespace millrace::coordinator
