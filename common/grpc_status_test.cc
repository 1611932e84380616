#include "common/grpc_status.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "common/printable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

// A long name in a message once became "metadata size exceeds hard limit" instead of its status.
TEST(GrpcStatusTest, MessageIsBoundedAndPrintable) {
  const grpc::Status status =
      ToGrpcStatus(absl::NotFoundError("no job \x1b'" + std::string(20'000, 'x') + "'"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), SizeIs(kMaxPrintableBytes));
  EXPECT_THAT(status.error_message(), StartsWith("no job \\x1b'xxx"));
  EXPECT_THAT(status.error_message(), EndsWith("x..."));
}

// People were told "Server Threadpool Exhausted".
TEST(GrpcStatusTest, LackOfThreadsIsPassingAndSaysWhatToDo) {
  const absl::Status status = FromGrpcStatus(
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "Server Threadpool Exhausted"));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no thread left"));
}

// gRPC says nothing at all of such a call.
TEST(GrpcStatusTest, CallThatTheServerDoesNotKnowIsExplained) {
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not know this call"));
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no ZSTD here")),
            absl::UnimplementedError("no ZSTD here"));
}

TEST(GrpcStatusTest, DisagreementAboutTlsIsExplained) {
  const auto told = [](const std::string& reason) {
    const absl::Status status =
        FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                    "failed to connect to all addresses; last error: " + reason));
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    return std::string(status.message());
  };
  EXPECT_THAT(told("Hostname Verification Check failed."), HasSubstr("--tls_server_name"));
  EXPECT_THAT(told("SSL routines::certificate verify failed"), HasSubstr("authority of --tls_ca"));
  EXPECT_THAT(told("SSL routines::wrong version number"), HasSubstr("speaks plain text"));
  EXPECT_THAT(told("Handshake read failed"), HasSubstr("does not answer as a server with TLS"));
  EXPECT_THAT(told("Socket closed"), HasSubstr("does not take this process's certificate"));
  EXPECT_EQ(told("Connection refused"),
            "failed to connect to all addresses; last error: Connection refused");
  const absl::Status relayed = absl::UnavailableError(
      "ps-0: GetShard: failed to connect to all addresses; last error: Socket closed");
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(relayed)), relayed);
  const absl::Status late = FromGrpcStatus(
      grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "call host does not match SSL server name"));
  EXPECT_THAT(std::string(late.message()), HasSubstr("--tls_server_name"));
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed")),
            absl::UnavailableError("Socket closed"));
}

TEST(GrpcStatusTest, CodesThatThereAreNotAreTheSendersTrouble) {
  EXPECT_EQ(ToStatusCode(0), absl::StatusCode::kOk);
  EXPECT_EQ(ToStatusCode(3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ToStatusCode(16), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ToStatusCode(17), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ToStatusCode(-1), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ToStatusCode(std::numeric_limits<int32_t>::min()), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace
