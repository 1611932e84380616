#include "coordinator/shards/call_errors.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

absl::Status PinCutError(bool is_there, const grpc::Status& status) {
  return CallError("PinCut", {"ps-1 (127.0.0.1:2223)", /*shard=*/1, is_there}, status);
}

std::string PinCutMessage(bool is_there, const grpc::Status& status) {
  return std::string(PinCutError(is_there, status).message());
}

TEST(CallErrorsTest, ErrorNamesServerCallAndShard) {
  const grpc::Status status(grpc::StatusCode::NOT_FOUND, "no such\rjob");
  EXPECT_EQ(PinCutError(true, status).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PinCutMessage(/*is_there=*/true, status),
            "ps-1 (127.0.0.1:2223): PinCut of shard 1: no such\\x0djob");
  EXPECT_TRUE(PinCutError(true, grpc::Status::OK).ok());
}

// gRPC says nothing of it.
TEST(CallErrorsTest, CallThatTheServerDoesNotKnowIsExplained) {
  const std::string message = PinCutMessage(true, {grpc::StatusCode::UNIMPLEMENTED, ""});
  EXPECT_NE(message.find("does not know this call"), std::string::npos) << message;
}

TEST(CallErrorsTest, CallThatWasCutShortSaysByWhom) {
  for (const char* bare : {"", "CANCELLED"}) {
    const grpc::Status status(grpc::StatusCode::CANCELLED, bare);
    EXPECT_EQ(PinCutMessage(/*is_there=*/true, status),
              "ps-1 (127.0.0.1:2223): PinCut of shard 1: the server has given up the call");
    EXPECT_EQ(PinCutMessage(/*is_there=*/false, status),
              "ps-1 (127.0.0.1:2223): PinCut of shard 1: the call was given up, since the server "
              "went, or was started again");
  }
  EXPECT_EQ(
      PinCutMessage(/*is_there=*/false, grpc::Status(grpc::StatusCode::CANCELLED, "the job ends")),
      "ps-1 (127.0.0.1:2223): PinCut of shard 1: the job ends");
}

TEST(CallErrorsTest, BrokenTransportIsUnavailableWhateverGrpcCallsIt) {
  for (const auto code :
       {grpc::StatusCode::UNKNOWN, grpc::StatusCode::INTERNAL, grpc::StatusCode::UNAVAILABLE}) {
    EXPECT_EQ(PinCutError(true, grpc::Status(code, "reset")).code(),
              absl::StatusCode::kUnavailable);
  }
}

TEST(CallErrorsTest, ErrorThatDoesNotPassIsTheWorst) {
  const grpc::Status passes(grpc::StatusCode::UNAVAILABLE, "");
  const grpc::Status is_stale(grpc::StatusCode::FAILED_PRECONDITION, "");
  const grpc::Status is_full(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  const grpc::Status is_final(grpc::StatusCode::INVALID_ARGUMENT, "");
  EXPECT_EQ(WorstOf({grpc::Status::OK, passes, is_full, is_final, is_final}), 3u);
  EXPECT_EQ(WorstOf({passes, is_full, is_stale}), 1u);
  EXPECT_EQ(WorstOf({grpc::Status::OK, is_stale, passes}), 1u) << "the first of equals";
  EXPECT_EQ(WorstOf({grpc::Status::OK, passes, is_stale}), 1u);
}

TEST(CallErrorsTest, WhereAllCallsAreWellNoneIsTheWorst) {
  EXPECT_FALSE(WorstOf({grpc::Status::OK, grpc::Status::OK}).has_value());
  EXPECT_FALSE(WorstOf({}).has_value());
}

}  // namespace
}  // namespace millrace::coordinator
