#include "coordinator/checkpoint/best_tries.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

class BestTriesTest : public ::testing::Test {
 protected:
  void Begin() { tries_.Begin(BestEvaluation(), "evaluation-0", now_); }
  // A try every ten seconds that fails, until that is the result.
  int TryInVain() {
    int tries = 0;
    while (tries_.under_way()) {
      now_ += absl::Seconds(10);
      EXPECT_TRUE(tries_.IsDue(now_));
      tries_.Failed(full_, now_);
      ++tries;
    }
    EXPECT_EQ(tries_.TakeResult()->status(), full_);
    return tries;
  }
  void ExpectNotTried() {
    Begin();
    EXPECT_FALSE(tries_.IsDue(now_));
    EXPECT_EQ(tries_.TakeResult()->status(), full_);
  }

  const absl::Status full_ = absl::UnavailableError("no space on the disk");
  BestTries tries_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(9);
};

TEST_F(BestTriesTest, OneIsTriedAtOnceAndHasOneResult) {
  EXPECT_FALSE(tries_.IsDue(now_));
  Begin();
  EXPECT_TRUE(tries_.IsDue(now_));
  EXPECT_FALSE(tries_.TakeResult());
  CheckpointInfo saved;
  saved.set_number(3);
  tries_.End(saved, now_);
  EXPECT_FALSE(tries_.IsDue(now_));
  EXPECT_EQ(tries_.TakeResult()->value().number(), 3u);
  EXPECT_FALSE(tries_.TakeResult());
}

TEST_F(BestTriesTest, OneThatFailsIsTriedAgainForAMinute) {
  Begin();
  tries_.Failed(full_, now_);
  EXPECT_FALSE(tries_.IsDue(now_));
  EXPECT_TRUE(tries_.IsDue(now_ + absl::Seconds(1)));
  EXPECT_EQ(TryInVain(), 6);
}

TEST_F(BestTriesTest, AfterOneThatCouldNotBeSavedOthersFailAtOnceForLongerEachTime) {
  Begin();
  TryInVain();
  ExpectNotTried();
  now_ += absl::Minutes(1);
  Begin();
  EXPECT_EQ(TryInVain(), 1);
  now_ += absl::Minutes(1);
  ExpectNotTried();
  now_ += absl::Minutes(1);
  Begin();
  tries_.End(CheckpointInfo(), now_);
  EXPECT_TRUE(tries_.TakeResult()->ok());
  Begin();
  EXPECT_TRUE(tries_.IsDue(now_));
}

TEST_F(BestTriesTest, WhereSomethingHasChangedTheNextOneIsTried) {
  Begin();
  TryInVain();
  tries_.ForgetPause();
  Begin();
  EXPECT_TRUE(tries_.IsDue(now_));
}

TEST_F(BestTriesTest, OneThatNobodyWaitsForHasNoResult) {
  Begin();
  tries_.Drop();
  EXPECT_FALSE(tries_.under_way());
  EXPECT_FALSE(tries_.TakeResult());
}

}  // namespace
}  // namespace millrace::coordinator
