// Pulls against fake servers, on loopback.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/channel.h"
#include "common/wire/tensor_codec.h"
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
using ::testing::AllOf;
using ::testing::HasSubstr;

using Counters = FakeParameterServer::Counters;

TEST(ParameterClientPullTest, ValuesOfEveryShardArrive) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/3, /*servers=*/2);
    cluster.Store(cluster.MakeValues(1));
    const auto client = cluster.NewClient();
    Values values = cluster.Zeros();
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
    EXPECT_EQ(values, cluster.MakeValues(1));
  }
}

// What was asked for was written to what was no more.
TEST(ParameterClientPullTest, NothingIsWrittenAfterAPullCouldNotBeBegun) {
  TestCluster cluster(kSmall, /*shards=*/2, /*servers=*/2);
  ParameterClientOptions of_client;
  of_client.connections_per_server = 1;
  int connected = 0;
  of_client.connect = [&connected](const std::string& address) {
    if (++connected == 2) throw std::bad_alloc();
    return CreateChannel(address, /*bulk=*/true);
  };
  const auto client = cluster.NewClient(of_client);
  std::atomic<size_t> arrived{0};
  PullOptions options = UntilSoon();
  options.arrived = [&arrived](size_t, size_t, size_t count) { arrived += count; };
  Values values = cluster.Zeros();
  EXPECT_THROW(client->StartPull(options, TestCluster::Spans(&values)), std::bad_alloc);
  const size_t before = arrived;  // An answer may have been there before the second connection.
  // On one stream, answers come in the order of the requests; this pull may stand in the memory of
  // the other one.
  ASSERT_EQ(PullInto(client.get(), options, &values), absl::OkStatus());
  size_t elements = 0;
  for (const auto& variable : values) elements += variable.size();
  EXPECT_EQ(arrived - before, elements);
}

TEST(ParameterClientPullTest, SmallShardIsOneRequestOnOneConnection) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  }
  EXPECT_EQ(cluster.server(0).counters().pull_requests, 10);
  EXPECT_EQ(cluster.server(0).counters().pull_streams, 1);
}

TEST(ParameterClientPullTest, ShardThatDoesNotAnswerIsKnown) {
  TestCluster cluster(kSmall, /*shards=*/2, /*servers=*/2);
  cluster.server(1).SetPullRule([](const PullRequest&) { return Verdict{Verdict::kIgnore}; });
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  const auto pull = client->StartPull(PullOptions(), TestCluster::Spans(&values));
  EXPECT_TRUE(absl::IsDeadlineExceeded(pull->Wait(Clock::Real()->Now() + absl::Milliseconds(50))));
  while (pull->FirstUnanswered() == 0u) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(pull->Wait(Clock::Real()->Now() + absl::Milliseconds(1))));
  }
  EXPECT_EQ(pull->FirstUnanswered(), 1u);
}

TEST(ParameterClientPullTest, LargeShardIsPulledInPartsOverAllConnections) {
  TestCluster cluster({8 * kBlockElements}, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(2));
  const auto client = cluster.NewClient(/*connections_per_server=*/3);
  Values values = cluster.Zeros();
  ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  EXPECT_EQ(values, cluster.MakeValues(2));
  EXPECT_EQ(cluster.server(0).counters().pull_requests, 3);
  EXPECT_EQ(cluster.server(0).counters().pull_streams, 3);
}

TEST(ParameterClientPullTest, RequestNamesVersionCutAndAShortWait) {
  std::atomic<int> right = 0;
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPullRule([&right](const PullRequest& request) {
    right += request.job_id() == "job" && request.generation() == 1 && request.has_version() &&
             request.version() == 6 && request.cut_id() == "cut" &&
             request.timeout().seconds() <= 2 &&
             request.timeout().seconds() + request.timeout().nanos() > 0;
    return Verdict();
  });
  const auto client = cluster.NewClient();
  PullOptions options = UntilSoon();
  options.version = 6;
  options.cut_id = "cut";
  Values values = cluster.Zeros();
  ASSERT_EQ(PullInto(client.get(), options, &values), absl::OkStatus());
  EXPECT_EQ(right, 1);
}

TEST(ParameterClientPullTest, ServersShortWaitsAreRepeated) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  cluster.server(0).SetPullRule(
      Times(3, Refusal(absl::StatusCode::kDeadlineExceeded, "waits for step 4")));
  const auto client = cluster.NewClient();
  PullOptions options = UntilSoon();
  options.version = 1;
  Values values = cluster.Zeros();
  ASSERT_EQ(PullInto(client.get(), options, &values), absl::OkStatus());
  EXPECT_EQ(cluster.server(0).counters().pull_requests, 4);
  EXPECT_EQ(values, cluster.MakeValues(1));
}

// A pull that took longer than its first deadline was thrown away and asked for again, while the
// server went on sending the old one.
TEST(ParameterClientPullTest, SlowServerIsAskedOnceHoweverOftenThePullIsWaitedFor) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  std::promise<void> serve;
  cluster.server(0).SetPullRule([may_serve = serve.get_future().share()](const PullRequest&) {
    may_serve.wait_for(std::chrono::seconds(60));
    return Verdict();
  });
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  const std::vector<absl::Span<float>> spans = TestCluster::Spans(&values);
  const auto pull = client->StartPull({}, spans);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pull->Wait(Clock::Real()->Now()).code(), absl::StatusCode::kDeadlineExceeded);
  }
  serve.set_value();
  ASSERT_EQ(pull->Wait(UntilSoon().deadline), absl::OkStatus());
  EXPECT_EQ(values, cluster.MakeValues(1));
  EXPECT_EQ(cluster.server(0).counters().pull_requests, 1);
}

// The server would send the rest of it, too.
TEST(ParameterClientPullTest, AbandonedPullBreaksItsStreamAndOthersOnItAreRepeated) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  cluster.server(0).SetPullRule(Times(2, {Verdict::kIgnore}));
  const auto client = cluster.NewClient(/*connections_per_server=*/1);
  Values unwanted = cluster.Zeros();
  Values wanted = cluster.Zeros();
  auto first = client->StartPull({}, TestCluster::Spans(&unwanted));
  const auto second = client->StartPull({}, TestCluster::Spans(&wanted));
  cluster.server(0).Await([](const Counters& counters) { return counters.pull_requests == 2; });
  first.reset();
  ASSERT_EQ(second->Wait(UntilSoon().deadline), absl::OkStatus());
  EXPECT_EQ(wanted, cluster.MakeValues(1));
  EXPECT_EQ(cluster.server(0).counters().pull_streams, 2);
}

TEST(ParameterClientPullTest, DeadlineNamesTheServersAndWhatTheyWaitFor) {
  SimulatedClock clock;
  TestCluster cluster(kSmall, /*shards=*/2, /*servers=*/2);
  cluster.server(1).SetPullRule([&clock](const PullRequest&) {
    clock.Advance(absl::Seconds(2));
    return Refusal(absl::StatusCode::kDeadlineExceeded, "waits for step 4");
  });
  const auto client = cluster.NewClient(/*connections_per_server=*/4, &clock);
  PullOptions options;
  options.version = 3;
  options.deadline = clock.Now() + absl::Seconds(11);
  Values values = cluster.Zeros();
  const absl::Status status = PullInto(client.get(), options, &values);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("version 3"), HasSubstr("ps-1 (127.0.0.1:"),
                                       HasSubstr("waits for step 4")));
  EXPECT_GE(cluster.server(1).counters().pull_requests, 5);
}

TEST(ParameterClientPullTest, BrokenStreamIsOpenedAndThePartPulledAgain) {
  for (Verdict::Kind kind : {Verdict::kBreakStream, Verdict::kServeHalf}) {
    TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/1);
    cluster.Store(cluster.MakeValues(1));
    cluster.server(0).SetPullRule(
        Times(2, {kind, static_cast<int>(absl::StatusCode::kUnavailable), "test"}));
    const auto client = cluster.NewClient(/*connections_per_server=*/1);
    Values values = cluster.Zeros();
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
    EXPECT_EQ(values, cluster.MakeValues(1));
  }
}

TEST(ParameterClientPullTest, ServerThatComesBackIsAskedAgain) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.Store(cluster.MakeValues(1));
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  cluster.server(0).Stop();
  PullOptions options = UntilSoon();
  options.deadline = Clock::Real()->Now();
  EXPECT_EQ(PullInto(client.get(), options, &values).code(), absl::StatusCode::kDeadlineExceeded);
  cluster.server(0).Restart();
  ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  EXPECT_EQ(values, cluster.MakeValues(1));
}

TEST(ParameterClientPullTest, RefusalsAreReturnedWithTheServersName) {
  for (absl::StatusCode code : {absl::StatusCode::kFailedPrecondition, absl::StatusCode::kNotFound,
                                absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument}) {
    TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/2);
    cluster.server(1).SetPullRule(Times(1, Refusal(code, "no longer there")));
    const auto client = cluster.NewClient();
    Values values = cluster.Zeros();
    const absl::Status status = PullInto(client.get(), UntilSoon(), &values);
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.ToString(), AllOf(HasSubstr("ps-1 (127.0.0.1:"), HasSubstr("shard 1"),
                                         HasSubstr("no longer there")));
  }
}

TEST(ParameterClientPullTest, ServerThatHasNoRoomIsAskedAgain) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/2);
  cluster.Store(cluster.MakeValues(1));
  cluster.server(1).SetPullRule(Times(1, Refusal(absl::StatusCode::kResourceExhausted, "full")));
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  EXPECT_EQ(values, cluster.MakeValues(1));
}

TEST(ParameterClientPullTest, VersionThatIsGoneIsAnError) {
  TestCluster cluster(kLarge, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPullRule(Times(1, Refusal(absl::StatusCode::kAborted, "no longer there")));
  const auto client = cluster.NewClient();
  PullOptions options = UntilSoon();
  options.version = 3;
  Values values = cluster.Zeros();
  EXPECT_EQ(PullInto(client.get(), options, &values).code(), absl::StatusCode::kAborted);
}

// A message that was lost on a connection that was not: the pull waited for ever.
TEST(ParameterClientPullTest, PullThatIsNotAnsweredIsMadeAgain) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/2, /*servers=*/1);
    cluster.Store(cluster.MakeValues(1));
    cluster.server(0).SetPullRule(Times(1, {Verdict::kIgnore}));
    ParameterClientOptions options;
    options.call_timeout = absl::Milliseconds(50);
    const auto client = cluster.NewClient(options);
    Values values = cluster.Zeros();
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
    EXPECT_EQ(values, cluster.MakeValues(1));
  }
}

TEST(ParameterClientPullTest, AnswersThatAreLostOrComeTwiceLeaveNoHole) {
  for (const Verdict::Kind kind : {Verdict::kLoseAnswer, Verdict::kRepeat}) {
    TestCluster cluster(kLarge, /*shards=*/1, /*servers=*/1);
    cluster.Store(cluster.MakeValues(1));
    cluster.server(0).SetPullRule(Times(2, {kind}));
    const auto client = cluster.NewClient(/*connections_per_server=*/2);
    Values values = cluster.Zeros();
    ASSERT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
    EXPECT_EQ(values, cluster.MakeValues(1));
  }
}

TEST(ParameterClientPullTest, CancelWakesWhoeverWaitsAndEndsLaterPulls) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/1);
  cluster.server(0).SetPullRule([](const PullRequest&) { return Verdict{Verdict::kIgnore}; });
  const auto client = cluster.NewClient();
  std::thread pull([&client, &cluster] {
    Values values = cluster.Zeros();
    EXPECT_EQ(PullInto(client.get(), {}, &values).code(), absl::StatusCode::kCancelled);
  });
  cluster.server(0).Await([](const Counters& counters) { return counters.pull_requests > 0; });
  client->Cancel();
  pull.join();
  Values values = cluster.Zeros();
  EXPECT_EQ(PullInto(client.get(), UntilSoon(), &values).code(), absl::StatusCode::kCancelled);
}

TEST(ParameterClientPullTest, CancelledPullEndsAlone) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPullRule(Times(1, {Verdict::kIgnore}));
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  const auto pull = client->StartPull({}, TestCluster::Spans(&values));
  cluster.server(0).Await([](const Counters& counters) { return counters.pull_requests > 0; });
  std::thread canceller([&pull] { pull->Cancel(); });
  EXPECT_EQ(pull->Wait(UntilSoon().deadline).code(), absl::StatusCode::kCancelled);
  canceller.join();
  Values others = cluster.Zeros();
  EXPECT_EQ(PullInto(client.get(), UntilSoon(), &others), absl::OkStatus());
}

// Has what it was told of, as a device would.
class Listener {
 public:
  Listener(const Values* values, const Values& zeros) : values_(*values), told_(zeros) {}

  PullOptions Options() {
    PullOptions options = UntilSoon();
    options.arrived = [this](size_t variable, size_t first, size_t count) {
      EXPECT_TRUE(listens);
      EXPECT_LE(first + count, told_[variable].size());
      elements += count;
      std::copy_n(values_[variable].begin() + static_cast<ptrdiff_t>(first), count,
                  told_[variable].begin() + static_cast<ptrdiff_t>(first));
    };
    return options;
  }

  const Values& told() const { return told_; }

  std::atomic<bool> listens{true};
  std::atomic<uint64_t> elements{0};

 private:
  const Values& values_;
  Values told_;
};

TEST(ParameterClientPullTest, EachElementIsToldOfOnceItStandsThere) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/3, /*servers=*/2);
    cluster.Store(cluster.MakeValues(1));
    const auto client = cluster.NewClient();
    Values values = cluster.Zeros();
    Listener listener(&values, cluster.Zeros());
    ASSERT_EQ(PullInto(client.get(), listener.Options(), &values), absl::OkStatus());
    EXPECT_EQ(listener.told(), cluster.MakeValues(1));
    EXPECT_EQ(listener.elements, std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}));
  }
}

// The second attempt meets a newer state.
TEST(ParameterClientPullTest, WhatIsPulledAgainIsToldOfAgainAndTheLastCounts) {
  for (const Verdict::Kind kind : {Verdict::kServeHalf, Verdict::kLoseAnswer, Verdict::kRepeat}) {
    std::atomic<int> requests = 0;
    TestCluster cluster({8 * kBlockElements}, /*shards=*/1, /*servers=*/1);
    cluster.Store(cluster.MakeValues(1));
    cluster.server(0).SetPullRule([&](const PullRequest&) {
      const int request = requests++;
      if (request == 2) cluster.Store(cluster.MakeValues(2));
      return request < 2 ? Verdict{kind, static_cast<int>(absl::StatusCode::kUnavailable), "test"}
                         : Verdict();
    });
    const auto client = cluster.NewClient(/*connections_per_server=*/2);
    Values values = cluster.Zeros();
    Listener listener(&values, cluster.Zeros());
    ASSERT_EQ(PullInto(client.get(), listener.Options(), &values), absl::OkStatus());
    EXPECT_EQ(listener.told(), values);
    if (kind == Verdict::kRepeat) {
      EXPECT_EQ(listener.elements, 8 * kBlockElements);
    } else {
      EXPECT_GT(listener.elements, 8 * kBlockElements);
    }
  }
}

TEST(ParameterClientPullTest, NobodyIsToldOnceThePullIsGone) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/1);
  const auto client = cluster.NewClient();
  for (int i = 0; i < 20; ++i) {
    Values values = cluster.Zeros();
    Listener listener(&values, cluster.Zeros());
    auto pull = client->StartPull(listener.Options(), TestCluster::Spans(&values));
    while (i % 2 == 1 && listener.elements == 0) {
      EXPECT_FALSE(absl::IsInternal(pull->Wait(Clock::Real()->Now())));
    }
    pull.reset();
    listener.listens = false;
    EXPECT_THAT(listener.told(), values);
  }
}

// What the network, or somebody else at the server's address, has made of it comes right.
TEST(ParameterClientPullTest, StreamThatIsRefusedAgainAndAgainEndsThePull) {
  std::atomic<bool> refuses{true};
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  const Verdict refusal{Verdict::kBreakStream, static_cast<int>(absl::StatusCode::kAlreadyExists),
                        "no such stream"};
  const auto client = cluster.NewClient();
  Values values = cluster.Zeros();
  cluster.server(0).SetPullRule([&refuses, refusal](const PullRequest&) {
    return refuses.exchange(false) ? refusal : Verdict();
  });
  EXPECT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
  cluster.server(0).SetPullRule([refusal](const PullRequest&) { return refusal; });
  EXPECT_EQ(PullInto(client.get(), UntilSoon(), &values).code(), absl::StatusCode::kAlreadyExists);
}

// A shard on the server that is smaller or larger than the routing says.
TEST(ParameterClientPullTest, ServerThatSendsTooLittleOrTooMuchIsAnError) {
  TestCluster cluster({100}, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  for (size_t size : {99, 101}) {
    cluster.server(0).SetValues(0, 0, std::vector<float>(size));
    Values values = cluster.Zeros();
    const absl::Status status = PullInto(client.get(), UntilSoon(), &values);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.ToString(), HasSubstr("the server has sent"));
  }
}

TEST(ParameterClientPullTest, ValuesArriveRoundedToTheEncoding) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/3, /*servers=*/2);
    Values stored = cluster.Zeros();
    for (auto& variable : stored) {
      for (size_t i = 0; i < variable.size(); ++i) {
        variable[i] = 1 + static_cast<float>(i % 512) / 512;
      }
    }
    cluster.Store(stored);
    const auto client = cluster.NewClient();
    PullOptions options = UntilSoon();
    options.encoding = Encoding::FLOAT16;  // Has them all.
    Values values = cluster.Zeros();
    ASSERT_EQ(PullInto(client.get(), options, &values), absl::OkStatus());
    EXPECT_EQ(values, stored);
    options.encoding = Encoding::BFLOAT16;
    ASSERT_EQ(PullInto(client.get(), options, &values), absl::OkStatus());
    EXPECT_EQ(values[0][3], 1.0078125f) << "1 + 3 / 512 goes to 1 + 1 / 128";
  }
}

// It would not know what is pushed to it either.
TEST(ParameterClientPullTest, ServerThatDoesNotKnowTheEncodingIsAnError) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.server(0).ForgetEncodings();
  const auto client = cluster.NewClient();
  PullOptions options = UntilSoon();
  options.encoding = Encoding::BFLOAT16;
  Values values = cluster.Zeros();
  const absl::Status status = PullInto(client.get(), options, &values);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(), HasSubstr("asked for values as BFLOAT16"));
  EXPECT_EQ(PullInto(client.get(), UntilSoon(), &values), absl::OkStatus());
}

}  // namespace
}  // namespace millrace::worker
