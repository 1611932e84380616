#include "common/retry.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

using absl::StatusCode;

TEST(RetryTest, StreamIsOpenedAgainUnlessItWasRefused) {
  for (const StatusCode code : {StatusCode::kOk, StatusCode::kUnavailable, StatusCode::kInternal,
                                StatusCode::kCancelled, StatusCode::kUnknown}) {
    EXPECT_TRUE(IsBrokenConnection(code)) << code;
  }
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kResourceExhausted, StatusCode::kNotFound}) {
    EXPECT_FALSE(IsBrokenConnection(code)) << code;
  }
}

// A proxy's 401, 403 and 404; and another server at the address of one that is gone.
TEST(RetryTest, WhatNoServerOfOursAnswersIsABrokenConnection) {
  for (const StatusCode code :
       {StatusCode::kUnauthenticated, StatusCode::kPermissionDenied, StatusCode::kUnimplemented}) {
    EXPECT_TRUE(IsNoAnswerOfOurs(code)) << code;
    EXPECT_TRUE(IsBrokenConnection(code)) << code;
  }
  EXPECT_FALSE(IsNoAnswerOfOurs(StatusCode::kUnavailable));
  EXPECT_FALSE(IsNoAnswerOfOurs(StatusCode::kDataLoss));
}

TEST(RetryTest, AnswersAreClassifiedByWhatWouldHelp) {
  EXPECT_EQ(Classify(StatusCode::kOk), Failure::kNone);
  EXPECT_EQ(Classify(StatusCode::kAborted), Failure::kPassing);
  EXPECT_EQ(Classify(StatusCode::kUnavailable), Failure::kPassing);
  EXPECT_EQ(Classify(StatusCode::kResourceExhausted), Failure::kFull);
  EXPECT_EQ(Classify(StatusCode::kFailedPrecondition), Failure::kStale);
  EXPECT_EQ(Classify(StatusCode::kNotFound), Failure::kStale);
  EXPECT_EQ(Classify(StatusCode::kInvalidArgument), Failure::kFinal);
  EXPECT_EQ(Classify(StatusCode::kDataLoss), Failure::kFinal);
  EXPECT_EQ(Classify(StatusCode::kInternal), Failure::kFinal);
}

TEST(RetryTest, TransientIsWhatPassesOrNeedsANewPicture) {
  EXPECT_TRUE(IsTransient(StatusCode::kUnavailable));
  EXPECT_TRUE(IsTransient(StatusCode::kNotFound));
  EXPECT_FALSE(IsTransient(StatusCode::kResourceExhausted));
  EXPECT_FALSE(IsTransient(StatusCode::kDataLoss));
}

TEST(BackoffTest, PausesGrowToALimitAndBeginAnew) {
  Backoff backoff(absl::Milliseconds(20), absl::Milliseconds(100));
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(20));
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(40));
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(80));
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(100));
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(100));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(20));
}

}  // namespace
}  // namespace millrace
