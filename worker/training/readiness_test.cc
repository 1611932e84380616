#include "worker/training/readiness.h"

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

const absl::Status kNoFile = absl::InvalidArgumentError("data.train: no such file");
const absl::Status kTruncated = absl::InvalidArgumentError("data.train: truncated");

class ReadinessTest : public ::testing::Test {
 protected:
  // An attempt that ends so at once.
  bool Attempt(const absl::Status& status) {
    EXPECT_TRUE(readiness_.Due(now_));
    readiness_.Begin();
    return readiness_.Conclude(status, now_);
  }

  Readiness readiness_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(ReadinessTest, NothingIsDueBeforeARoute) {
  EXPECT_FALSE(readiness_.Due(now_));
  EXPECT_EQ(readiness_.WaitsUntil(), absl::InfiniteFuture());
}

TEST_F(ReadinessTest, EveryRouteIsAnswered) {
  for (int i = 0; i < 3; ++i) {
    readiness_.Ask();
    EXPECT_TRUE(Attempt(absl::OkStatus()));
    EXPECT_FALSE(readiness_.Due(now_));
    EXPECT_EQ(readiness_.WaitsUntil(), absl::InfiniteFuture());
  }
}

TEST_F(ReadinessTest, FailedAttemptIsRepeatedAfterLongerAndLongerPauses) {
  readiness_.Ask();
  Attempt(kNoFile);
  for (int seconds : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_FALSE(readiness_.Due(now_));
    EXPECT_EQ(readiness_.WaitsUntil() - now_, absl::Seconds(seconds));
    now_ = readiness_.WaitsUntil();
    Attempt(kNoFile);
  }
}

TEST_F(ReadinessTest, CoordinatorIsToldOfChangesOnly) {
  readiness_.Ask();
  EXPECT_TRUE(Attempt(kNoFile));
  now_ += absl::Minutes(1);
  EXPECT_FALSE(Attempt(kNoFile));
  now_ += absl::Minutes(1);
  EXPECT_TRUE(Attempt(kTruncated));
  now_ += absl::Minutes(1);
  EXPECT_TRUE(Attempt(absl::OkStatus()));
}

TEST_F(ReadinessTest, RouteDuringAnAttemptIsAnsweredByAnother) {
  readiness_.Ask();
  readiness_.Begin();
  readiness_.Ask();
  EXPECT_TRUE(readiness_.Conclude(absl::OkStatus(), now_));
  EXPECT_TRUE(Attempt(absl::OkStatus()));
  EXPECT_FALSE(readiness_.Due(now_));
}

TEST_F(ReadinessTest, NobodyIsToldBetweenSessions) {
  readiness_.Ask();
  readiness_.Begin();
  readiness_.Hush();
  EXPECT_FALSE(readiness_.Conclude(kNoFile, now_));
  now_ += absl::Minutes(1);
  EXPECT_FALSE(readiness_.Due(now_));
  readiness_.Ask();
  EXPECT_TRUE(Attempt(kNoFile));
}

}  // namespace
}  // namespace millrace::worker
