// A real coordinator on loopback with fake ps servers and workers: synchronous versions that wait
// for the norm of their gradient over all shards, whoever is killed at which of the calls.
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;

constexpr int kServers = 2;

JobSpec ClippedJob(JobSpec spec, uint32_t replicas) {
  spec.mutable_synchronous()->set_replicas(replicas);
  spec.mutable_optimizer()->set_global_clip_norm(1);
  return spec;
}

// Every shard has made every version once, each with the norm of all shards' parts of 1.
void ExpectMadeOnce(FakeCluster& cluster, const std::string& job, uint64_t versions, int shards) {
  for (int shard = 0; shard < shards; ++shard) {
    const auto norms = cluster.ps(shard).Norms(job, static_cast<uint32_t>(shard));
    ASSERT_EQ(norms.size(), versions) << "shard " << shard;
    for (uint64_t version = 0; version < versions; ++version) {
      EXPECT_EQ(norms[version], std::make_pair(version, std::sqrt(1.0 * shards)));
    }
  }
}

TEST(GlobalNormTest, EveryVersionIsMadeOnceWithTheNormOfAllShards) {
  FakeCluster cluster(3);
  cluster.StartPs();
  cluster.AddWorker();
  cluster.AddWorker();
  const std::string job = cluster.Submit(ClippedJob(PlainJob(29), 2)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 29);
  ExpectMadeOnce(cluster, job, 15, 3);
}

TEST(GlobalNormTest, EvaluationsAreOfVersionsThatAreMade) {
  FakeCluster cluster(kServers);
  cluster.StartPs();
  std::vector<uint64_t> evaluated;
  FakeWorkerScript script;
  script.on_evaluate = [&](const Evaluate& evaluate) {
    for (int i = 0; i < kServers; ++i) {
      const auto steps = cluster.ps(i).PinnedSteps(evaluate.job_id(), i, evaluate.cut_id());
      evaluated.push_back(steps.value_or(0));
    }
    return absl::OkStatus();
  };
  cluster.AddWorker(script);
  const std::string job = cluster.Submit(ClippedJob(EvaluatedJob(8, 4), 2)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.worker(0).Kill();  // It writes no more.
  EXPECT_THAT(evaluated, ElementsAre(4, 4, 8, 8));
}

// Which call of the exchange something happens at.
enum class At { kMeasuring, kApplying };

void Hook(FakePs& ps, At at, FakePs::OnVersion hook) {
  at == At::kMeasuring ? ps.set_on_measure(std::move(hook)) : ps.set_on_apply(std::move(hook));
}

class KilledDuringExchangeTest : public ::testing::TestWithParam<std::pair<At, int>> {};

// The other shard may have made the version by then: it goes on as it is, and says with which norm.
TEST_P(KilledDuringExchangeTest, ServerThatLosesWhatItHeldIsToldTheSameNorm) {
  const auto [at, server] = GetParam();
  std::atomic<bool> killed{false};
  FakeCluster cluster(kServers);
  cluster.StartPs();
  for (int i = 0; i < kServers; ++i) cluster.ps(i).set_flush_always(true);
  FakePs& ps = cluster.ps(server);
  Hook(ps, at, [&](uint64_t version) {
    if (version != 3 || killed.exchange(true)) return grpc::Status::OK;
    ps.Crash();  // What is held is not on the disk.
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "killed");
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(ClippedJob(PlainJob(20), 2)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_TRUE(killed);
  cluster.ExpectAllApplied(job, 20);
  ExpectMadeOnce(cluster, job, 10, kServers);
}

TEST_P(KilledDuringExchangeTest, AnswerThatIsLostIsAskedForAgain) {
  const auto [at, server] = GetParam();
  std::atomic<int> refused{0};
  FakeCluster cluster(kServers);
  cluster.StartPs();
  Hook(cluster.ps(server), at, [&](uint64_t version) {
    if (version != 3 || refused++ >= 3) return grpc::Status::OK;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(ClippedJob(PlainJob(20), 2)).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_GT(refused, 3);
  cluster.ExpectAllApplied(job, 20);
  ExpectMadeOnce(cluster, job, 10, kServers);
}

TEST_P(KilledDuringExchangeTest, NextCoordinatorTakesTheExchangeUp) {
  const auto [at, server] = GetParam();
  Gate gate;
  std::atomic<bool> came{false};
  FakeCluster cluster(kServers);
  cluster.StartPs();
  Hook(cluster.ps(server), at, [&](uint64_t version) {
    if (version == 3 && !came.exchange(true)) gate.Pass();
    return grpc::Status::OK;
  });
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(ClippedJob(PlainJob(20), 2)).value();
  gate.AwaitSomebody();
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  gate.Open();
  for (int i = 0; i < kServers; ++i) cluster.ps(i).Join(cluster.address());
  worker.Join(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 20);
  ExpectMadeOnce(cluster, job, 10, kServers);
}

INSTANTIATE_TEST_SUITE_P(Calls, KilledDuringExchangeTest,
                         ::testing::Values(std::make_pair(At::kMeasuring, 0),
                                           std::make_pair(At::kMeasuring, 1),
                                           std::make_pair(At::kApplying, 0),
                                           std::make_pair(At::kApplying, 1)));

TEST(GlobalNormTest, WorkerThatIsKilledWhileAVersionWaitsForItsNormChangesNothing) {
  Gate gate;
  std::atomic<bool> came{false};
  FakeCluster cluster(kServers);
  cluster.StartPs();
  cluster.ps(1).set_on_apply([&](uint64_t version) {
    if (version == 3 && !came.exchange(true)) gate.Pass();
    return grpc::Status::OK;
  });
  FakeWorker& first = cluster.AddWorker();
  const std::string job = cluster.Submit(ClippedJob(PlainJob(20), 2)).value();
  gate.AwaitSomebody();
  cluster.AddWorker();
  std::thread killer([&first] { first.Kill(); });  // It may stand before the next version.
  gate.Open();
  killer.join();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 20);
  ExpectMadeOnce(cluster, job, 10, kServers);
}

TEST(GlobalNormTest, ExplanationNamesTheShardThatAVersionWaitsFor) {
  Gate gate;
  FakeCluster cluster(kServers);
  cluster.StartPs();
  cluster.ps(1).set_on_measure([&](uint64_t version) {
    if (version == 1) gate.Pass();
    return grpc::Status::OK;
  });
  cluster.AddWorker();
  const std::string job = cluster.Submit(ClippedJob(PlainJob(8), 2)).value();
  cluster.AwaitVerdict(job,
                       "the job waits for shard 1 on ps-1 (the norm of the gradient of version 1)");
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ExpectAllApplied(job, 8);
}

}  // namespace
}  // namespace millrace::coordinator
