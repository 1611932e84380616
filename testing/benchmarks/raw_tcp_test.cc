#include "testing/benchmarks/raw_tcp.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace millrace::testing {
namespace {

TEST(RawTcpTest, TransfersInBothDirectionsComplete) {
  const auto server = RawTcpServer::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = RawTcpClient::Connect((*server)->port(), /*bytes=*/(3 << 20) + 1);
  ASSERT_TRUE(client.ok()) << client.status();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*client)->Send(), absl::OkStatus());
    EXPECT_EQ((*client)->Receive(), absl::OkStatus());
  }
}

TEST(RawTcpTest, ServerNeedsNoClient) {
  const auto server = RawTcpServer::Start();
  EXPECT_TRUE(server.ok()) << server.status();
}

TEST(RawTcpTest, ServerThatIsNotThereIsAnError) {
  int port;
  {
    const auto server = RawTcpServer::Start();
    ASSERT_TRUE(server.ok()) << server.status();
    port = (*server)->port();
  }
  EXPECT_EQ(RawTcpClient::Connect(port, 1).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::testing
