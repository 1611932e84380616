// Many threads, servers that break streams all the time: each step is applied once on each shard.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/wire/tensor_codec.h"
#include "gtest/gtest.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/test_cluster.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::TestCluster;
using ::millrace::testing::Values;
using ::millrace::testing::Verdict;

constexpr int kThreads = 4;
constexpr int kSteps = 8;  // Of each thread.

template <typename Request>
std::function<Verdict(const Request&)> BreakEvery(int period) {
  return [period, count = std::make_shared<std::atomic<int>>(0)](const Request&) {
    if (++*count % period != 0) return Verdict();
    return Verdict{Verdict::kBreakStream, static_cast<int>(absl::StatusCode::kUnavailable), "test"};
  };
}

absl::Status PullAndPush(TestCluster* cluster, ParameterClient* client, uint64_t step) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(120);
  Values values = cluster->Zeros();
  ParameterClient::PullOptions options;
  options.deadline = deadline;
  absl::Status status = client->Pull(options, TestCluster::Spans(&values));
  if (!status.ok()) return status;
  const auto push = client->StartPush(step, 32);
  TestCluster::AddAll(std::make_shared<const Values>(cluster->MakeValues(step)), push.get());
  return push->Wait(deadline);
}

TEST(ParameterClientStressTest, EveryStepIsAppliedOnceThoughStreamsBreak) {
  TestCluster cluster({kBlockElements / 2, 1000, kBlockElements + 3},
                      /*shards=*/3, /*servers=*/2);
  for (int i = 0; i < 2; ++i) {
    cluster.server(i).SetPushRule(BreakEvery<PushRequest>(23));
    cluster.server(i).SetPullRule(BreakEvery<PullRequest>(11));
  }
  const auto client = cluster.NewClient();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&cluster, &client, thread] {
      for (int i = 0; i < kSteps; ++i) {
        EXPECT_EQ(PullAndPush(&cluster, client.get(), thread * kSteps + i), absl::OkStatus());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Values expected = cluster.Zeros();
  for (int step = 0; step < kThreads * kSteps; ++step) {
    const Values gradients = cluster.MakeValues(step);
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t j = 0; j < expected[i].size(); ++j) expected[i][j] -= gradients[i][j];
    }
  }
  EXPECT_EQ(cluster.Stored(), expected);
}

TEST(ParameterClientStressTest, ClientsComeAndGoWithRequestsUnderWay) {
  TestCluster cluster({2 * kBlockElements, 1000}, /*shards=*/3, /*servers=*/2);
  for (int round = 0; round < 20; ++round) {
    const auto client = cluster.NewClient();
    std::thread pull([&cluster, &client] {
      Values values = cluster.Zeros();
      client->Pull({}, TestCluster::Spans(&values)).IgnoreError();
    });
    const auto push = client->StartPush(round, 32);
    TestCluster::AddAll(std::make_shared<const Values>(cluster.MakeValues(round)), push.get());
    if (round % 2 == 0) client->Cancel();
    pull.join();
  }
}

}  // namespace
}  // namespace millrace::worker
