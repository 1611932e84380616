// Parts of a shard that are pulled as one state, against fake servers, on loopback.
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/pull_test_util.h"
#include "worker/parameters/test_cluster.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::FakeParameterServer;
using ::millrace::testing::kLarge;
using ::millrace::testing::kSmall;
using ::millrace::testing::TestCluster;
using ::millrace::testing::Values;
using ::millrace::testing::Verdict;

// Notes the group of each request.
FakeParameterServer::PullRule NoteGroups(std::vector<uint64_t>* groups, Mutex* mutex) {
  return [groups, mutex](const PullRequest& request) {
    MutexLock lock(mutex);
    groups->push_back(request.pull_group());
    return Verdict();
  };
}

// Each part was of the newest state of its own moment, and the model saw values of several.
TEST(PullGroupTest, PartsOfAShardAreAskedForAsOneState) {
  Mutex mutex;
  std::vector<uint64_t> groups;
  TestCluster cluster({8 * kBlockElements}, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPullRule(NoteGroups(&groups, &mutex));
  const auto client = cluster.NewClient(/*connections_per_server=*/2);
  Values values = cluster.Zeros();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  }
  MutexLock lock(&mutex);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_NE(groups[0], 0u);
  EXPECT_EQ(groups[0], groups[1]);
  EXPECT_NE(groups[2], groups[0]);
  EXPECT_EQ(groups[2], groups[3]);
}

// A group has its server keep a state.
TEST(PullGroupTest, WhatDoesNotChangeFromPartToPartIsNoGroup) {
  Mutex mutex;
  std::vector<uint64_t> groups;
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/1, /*servers=*/1);
    cluster.server(0).SetPullRule(NoteGroups(&groups, &mutex));
    const auto client = cluster.NewClient(/*connections_per_server=*/2);
    Values values = cluster.Zeros();
    PullOptions of_version = UntilSoon();
    of_version.version = 0;
    PullOptions of_cut = UntilSoon();
    of_cut.cut_id = "cut";
    ASSERT_EQ(PullInto(client.get(), of_version, &values), absl::OkStatus());
    ASSERT_EQ(PullInto(client.get(), of_cut, &values), absl::OkStatus());
    if (sizes == kLarge) continue;
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus()) << "of one part";
  }
  MutexLock lock(&mutex);
  ASSERT_EQ(groups.size(), 3u + 2u * 2u);
  EXPECT_THAT(groups, ::testing::Each(0u));
}

TEST(PullGroupTest, StateThatWasGivenUpIsPulledAgainWhole) {
  Mutex mutex;
  std::set<uint64_t> groups;
  std::map<uint64_t, int> served;
  TestCluster cluster({8 * kBlockElements}, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  cluster.server(0).SetPullRule([&](const PullRequest& request) {
    MutexLock lock(&mutex);
    groups.insert(request.pull_group());
    if (groups.size() == 1 && request.part() == 1) {
      return Refusal(absl::StatusCode::kAborted, "the state was given up");
    }
    ++served[request.pull_group()];
    return Verdict();
  });
  const auto client = cluster.NewClient(/*connections_per_server=*/2);
  Values values = cluster.Zeros();
  ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  EXPECT_EQ(values, cluster.MakeValues(1));
  MutexLock lock(&mutex);
  EXPECT_EQ(groups.size(), 2u);
  int whole = 0;
  for (const auto& [group, parts] : served) whole += parts == 2;
  EXPECT_EQ(whole, 1);
}

// A server that was started again in the middle began the group anew, with a newer state, for the
// parts that were missing; so would one that has forgotten the group, long after it.
TEST(PullGroupTest, PartThatIsLostPullsTheShardAgainWhole) {
  const Verdict broken = {Verdict::kBreakStream, static_cast<int>(absl::StatusCode::kUnavailable),
                          "test"};
  const Verdict stops = Refusal(absl::StatusCode::kUnavailable, "the server stops");
  for (const Verdict& verdict : {broken, stops, Verdict{Verdict::kIgnore}}) {
    Mutex mutex;
    uint64_t first = 0;
    std::map<uint64_t, std::set<uint32_t>> served;
    TestCluster cluster({2 * kBlockElements}, /*shards=*/1, /*servers=*/1);
    cluster.Store(cluster.MakeValues(1));
    cluster.server(0).SetPullRule([&](const PullRequest& request) {
      MutexLock lock(&mutex);
      if (first == 0) first = request.pull_group();
      if (request.pull_group() == first && request.part() == 1) return verdict;
      served[request.pull_group()].insert(request.part());
      return Verdict();
    });
    ParameterClientOptions options;
    options.connections_per_server = 2;
    options.call_timeout = absl::Milliseconds(50);
    const auto client = cluster.NewClient(options);
    Values values = cluster.Zeros();
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
    EXPECT_EQ(values, cluster.MakeValues(1));
    MutexLock lock(&mutex);
    served.erase(first);
    ASSERT_FALSE(served.empty());
    EXPECT_THAT(served.rbegin()->second, ::testing::SizeIs(2));
  }
}

// The second part had gone to the server's next process, which did not know that there was a first.
TEST(PullGroupTest, PartsThatAreOfTwoStatesAreNotTakenForOne) {
  Mutex mutex;
  std::vector<uint64_t> groups;
  int answers = 0;
  TestCluster cluster({2 * kBlockElements}, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  cluster.server(0).SetPullRule(NoteGroups(&groups, &mutex));
  cluster.server(0).SetAnswerChange([&](PullResponse* response) {
    MutexLock lock(&mutex);
    response->set_version(++answers == 1 ? 7 : 8);
  });
  const auto client = cluster.NewClient(/*connections_per_server=*/2);
  Values values = cluster.Zeros();
  ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  EXPECT_EQ(values, cluster.MakeValues(1));
  MutexLock lock(&mutex);
  ASSERT_GE(groups.size(), 4u);
  EXPECT_EQ(groups.at(groups.size() - 1), groups.at(groups.size() - 2));
  EXPECT_NE(groups.back(), groups.front());
}

}  // namespace
}  // namespace millrace::worker
