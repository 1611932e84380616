#include "common/net/channel.h"

#include <chrono>
#include <cstdlib>
#include <string>

#include "common/net/server.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

std::chrono::system_clock::time_point Deadline() {
  return std::chrono::system_clock::now() + kPatience;
}

std::unique_ptr<RpcServer> StartBareServer(const std::string& listen = "127.0.0.1:0") {
  auto server = RpcServer::Start({.listen = listen}, {});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

// Sets every variable by which gRPC finds a proxy to a port where nobody listens.
class DeadProxy {
 public:
  DeadProxy() {
    for (const char* name : kVariables) setenv(name, "http://127.0.0.1:1", /*replace=*/1);
  }
  ~DeadProxy() {
    for (const char* name : kVariables) unsetenv(name);
  }

 private:
  static constexpr const char* kVariables[] = {"grpc_proxy", "http_proxy", "https_proxy",
                                               "HTTP_PROXY", "HTTPS_PROXY"};
};

TEST(ChannelTest, ProxiesOfTheEnvironmentAreIgnored) {
  const auto server = StartBareServer();
  const DeadProxy proxy;
  EXPECT_TRUE(CreateChannel(server->address())->WaitForConnected(Deadline()));
  EXPECT_TRUE(CreateChannel(server->address(), /*bulk=*/true)->WaitForConnected(Deadline()));
}

// Without this one, the test above would pass also where gRPC knows other variables.
TEST(ChannelTest, ChannelWithDefaultArgumentsDoesUseTheProxy) {
  const auto server = StartBareServer();
  const DeadProxy proxy;
  const auto channel = grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials());
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    ASSERT_NE(state, GRPC_CHANNEL_READY);
    ASSERT_TRUE(channel->WaitForStateChange(state, Deadline()));
    state = channel->GetState(/*try_to_connect=*/true);
  }
}

TEST(ChannelTest, UnixSocketsConnect) {
  const auto server = StartBareServer("unix-abstract:millrace-channel-test");
  EXPECT_TRUE(CreateChannel(server->address())->WaitForConnected(Deadline()));
}

TEST(ChannelTest, ConnectsWhenTheServerStartsLater) {
  auto server = StartBareServer();
  const std::string address = server->address();
  server.reset();
  const auto channel = CreateChannel(address);
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    ASSERT_TRUE(channel->WaitForStateChange(state, Deadline()));
    state = channel->GetState(/*try_to_connect=*/true);
  }
  server = StartBareServer(address);
  EXPECT_TRUE(channel->WaitForConnected(Deadline()));
}

TEST(ChannelTest, UserSettingOfGrpcExperimentsIsKept) {
  unsetenv("GRPC_EXPERIMENTS");
  ConfigureGrpcEnvironment();
  EXPECT_STREQ(getenv("GRPC_EXPERIMENTS"), "tcp_frame_size_tuning,tcp_rcv_lowat");
  setenv("GRPC_EXPERIMENTS", "mine", /*replace=*/1);
  ConfigureGrpcEnvironment();
  EXPECT_STREQ(getenv("GRPC_EXPERIMENTS"), "mine");
}

}  // namespace
}  // namespace millrace
