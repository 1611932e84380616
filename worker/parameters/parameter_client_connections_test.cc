// What becomes of connections on which nothing comes, on loopback.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/net/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/relay.h"
#include "worker/parameters/test_cluster.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::kSmall;
using ::millrace::testing::Relay;
using ::millrace::testing::TestCluster;
using ::millrace::testing::Values;
using ::millrace::testing::Verdict;

// With little patience.
ParameterClientOptions Through(const Relay* relay) {
  ParameterClientOptions options;
  options.connections_per_server = 1;
  options.call_timeout = absl::Milliseconds(50);
  options.connect = [relay](const std::string&) {
    return CreateChannel(relay->address(), /*bulk=*/true);
  };
  return options;
}

// It was sent again on the same connection, until the system gave that up.
TEST(ParameterClientConnectionsTest, PushThatNothingIsHeardOfGoesOnAnotherConnection) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  Relay relay(cluster.server(0).address());
  const auto client = cluster.NewClient(Through(&relay));
  ASSERT_EQ(PushStep(&cluster, client.get(), 1), absl::OkStatus());
  relay.Hold();
  EXPECT_EQ(PushStep(&cluster, client.get(), 2), absl::OkStatus());
}

// Answers come on the connection, if not this one.
TEST(ParameterClientConnectionsTest, PushThatNothingIsHeardOfDisturbsNoPullsOnItsConnection) {
  std::atomic<int> pushes{0};
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  SimulatedClock clock;
  std::atomic<int> connections{0};
  ParameterClientOptions options;
  options.clock = &clock;
  options.connections_per_server = 1;
  options.connect = [&](const std::string& address) {
    ++connections;
    return CreateChannel(address, /*bulk=*/true);
  };
  const auto client = cluster.NewClient(options);
  cluster.server(0).SetPushRule([&pushes](const PushRequest&) {
    return ++pushes > 2 ? Verdict() : Verdict{Verdict::kIgnore};
  });
  const auto push = client->StartPush(1, 32);
  TestCluster::AddAll(Gradients(cluster, 1), push.get());
  std::atomic<bool> is_done{false};
  std::thread wait([&] {
    EXPECT_EQ(push->Wait(absl::InfiniteFuture()), absl::OkStatus());
    is_done = true;
  });
  Values values = cluster.MakeValues(0);
  while (!is_done) {
    clock.Advance(absl::Seconds(1));
    EXPECT_EQ(client->Pull({}, TestCluster::Spans(&values)), absl::OkStatus());
  }
  wait.join();
  EXPECT_EQ(connections, 1);
  EXPECT_EQ(cluster.server(0).counters().pull_streams, 1);
}

// What gRPC had not ended when its client went would have stayed for ever.
TEST(ParameterClientConnectionsTest, StreamsThatOutliveTheirClientGoWithALaterOne) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  std::weak_ptr<grpc::Channel> channel;
  ParameterClientOptions options;
  options.stream_patience = absl::ZeroDuration();
  options.connect = [&channel](const std::string& address) {
    auto made = CreateChannel(address, /*bulk=*/true);
    channel = made;
    return made;
  };
  auto client = cluster.NewClient(options);
  ASSERT_EQ(PushStep(&cluster, client.get(), 1), absl::OkStatus());
  client.reset();
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  while (!channel.expired() && Clock::Real()->Now() < deadline) cluster.NewClient();
  EXPECT_TRUE(channel.expired());
}

}  // namespace
}  // namespace millrace::worker
