#include "worker/parameters/retry.h"

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

TEST(RetryTest, LostServersAreTriedAgainAndRefusalsAreNot) {
  for (absl::StatusCode code : {absl::StatusCode::kOk, absl::StatusCode::kUnavailable,
                                absl::StatusCode::kInternal, absl::StatusCode::kCancelled}) {
    EXPECT_TRUE(IsBrokenConnection(code)) << code;
  }
  for (absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kPermissionDenied}) {
    EXPECT_FALSE(IsBrokenConnection(code)) << code;
  }
}

TEST(RetryTest, BackoffGrowsToASecond) {
  Backoff backoff;
  absl::Duration last = absl::ZeroDuration();
  for (int i = 0; i < 20; ++i) {
    const absl::Duration pause = backoff.Next();
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, absl::Seconds(1));
    last = pause;
  }
  EXPECT_EQ(last, absl::Seconds(1));
}

}  // namespace
}  // namespace millrace::worker
