// Pushes against fake servers, on loopback.
#include <atomic>
#include <cmath>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/parameters/fake_parameter_server.h"
#include "worker/parameters/parameter_client.h"
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

absl::Time Soon() { return Clock::Real()->Now() + absl::Seconds(60); }

Values Negative(Values values) {
  for (auto& variable : values) {
    for (float& value : variable) value = -value;
  }
  return values;
}

// Lets `rule` decide on the first message, and serves the others.
FakeParameterServer::PushRule Once(Verdict verdict) {
  return [verdict, done = std::make_shared<std::atomic<bool>>(false)](const PushRequest&) {
    return done->exchange(true) ? Verdict() : verdict;
  };
}

TEST(ParameterClientPushTest, GradientIsAppliedOnEveryShard) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/3, /*servers=*/2);
    const auto client = cluster.NewClient();
    ASSERT_EQ(PushStep(&cluster, client.get(), 4), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(4)));
  }
}

TEST(ParameterClientPushTest, NothingOfAFrozenVariableIsPushed) {
  for (const auto& sizes : {kSmall, kLarge}) {
    for (size_t frozen = 0; frozen < sizes.size(); ++frozen) {
      TestCluster cluster(sizes, /*shards=*/3, /*servers=*/2);
      cluster.Freeze(frozen);
      const auto client = cluster.NewClient();
      ASSERT_EQ(PushStep(&cluster, client.get(), 4), absl::OkStatus());
      Values expected = Negative(cluster.MakeValues(4));
      expected[frozen] = cluster.Zeros()[frozen];
      EXPECT_EQ(cluster.Stored(), expected);
    }
  }
}

TEST(ParameterClientPushTest, ShardThatIsAllFrozenGetsOneMessageWithoutPiecesUponCommit) {
  TestCluster cluster({10, 10}, /*shards=*/2, /*servers=*/2);
  cluster.Freeze(1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  {
    const auto push = client->StartPush(0, 32);
    push->Add(0, (*gradients)[0], gradients);
  }
  EXPECT_EQ(cluster.server(1).counters().push_messages, 0);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_EQ(PushStep(&cluster, client.get(), step), absl::OkStatus());
  }
  EXPECT_EQ(cluster.server(0).counters().applied, 3);
  EXPECT_EQ(cluster.server(1).counters().applied, 3);
  EXPECT_EQ(cluster.server(1).counters().push_messages, 3);
}

TEST(ParameterClientPushTest, MessageWithoutPiecesIsSentAgainLikeOthers) {
  for (const Verdict::Kind kind : {Verdict::kBreakStream, Verdict::kIgnore, Verdict::kRefuse}) {
    TestCluster cluster({10, 10}, /*shards=*/2, /*servers=*/2);
    cluster.Freeze(1);
    cluster.server(1).SetPushRule(
        Once({kind, static_cast<int>(absl::StatusCode::kUnavailable), "test"}));
    ParameterClientOptions options;
    options.call_timeout = absl::Milliseconds(50);
    const auto client = cluster.NewClient(options);
    ASSERT_EQ(PushStep(&cluster, client.get(), 0), absl::OkStatus());
    EXPECT_EQ(cluster.server(1).counters().applied, 1);
  }
}

TEST(ParameterClientPushTest, MessageSaysWhatItIsAPartOf) {
  std::atomic<int> right = 0;
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPushRule([&right](const PushRequest& request) {
    right += request.job_id() == "job" && request.generation() == 1 && request.step() == 4 &&
             request.examples() == 32;
    return Verdict();
  });
  const auto client = cluster.NewClient();
  ASSERT_EQ(PushStep(&cluster, client.get(), 4), absl::OkStatus());
  EXPECT_EQ(right, 1);
}

TEST(ParameterClientPushTest, SmallShardIsPushedInOneMessageOnOneConnection) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  for (uint64_t step = 0; step < 10; ++step) {
    ASSERT_EQ(PushStep(&cluster, client.get(), step), absl::OkStatus());
  }
  EXPECT_EQ(cluster.server(0).counters().push_messages, 10);
  EXPECT_EQ(cluster.server(0).counters().push_streams, 1);
}

// Both variables are worth a message of their own where the shard is larger.
TEST(ParameterClientPushTest, ShardOfAQuarterOfABlockIsPushedInOneMessage) {
  constexpr uint64_t kEighth = kBlockElements / 8;
  for (const uint64_t more : {0, 1}) {
    TestCluster cluster({kEighth, kEighth + more}, /*shards=*/1, /*servers=*/1);
    const auto client = cluster.NewClient();
    ASSERT_EQ(PushStep(&cluster, client.get(), 0), absl::OkStatus());
    EXPECT_EQ(cluster.server(0).counters().push_messages, static_cast<int>(1 + more));
  }
}

TEST(ParameterClientPushTest, SmallVariablesOfALargeShardLeaveTogether) {
  TestCluster cluster({kBlockElements, 10, 10, 10}, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  const auto push = client->StartPush(0, 32);
  for (size_t i = 0; i < 4; ++i) push->Add(i, (*gradients)[i], gradients);
  push->Commit();
  ASSERT_EQ(push->Wait(Soon()), absl::OkStatus());
  EXPECT_EQ(cluster.server(0).counters().push_messages, 2);
  EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(0)));
}

TEST(ParameterClientPushTest, LargeShardIsSpreadOverTheConnectionsInMessagesOfABlock) {
  TestCluster cluster({16 * kBlockElements}, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient(/*connections_per_server=*/3);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_EQ(PushStep(&cluster, client.get(), step), absl::OkStatus());
  }
  const Counters counters = cluster.server(0).counters();
  EXPECT_EQ(counters.push_streams, 3);
  EXPECT_EQ(counters.push_messages, 3 * 16);
  EXPECT_LT(counters.largest_push, kBlockElements * sizeof(float) + 100);
}

TEST(ParameterClientPushTest, FirstVariablesLeaveBeforeTheLastAreThere) {
  TestCluster cluster(kLarge, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  const auto push = client->StartPush(0, 1);
  push->Add(2, (*gradients)[2], gradients);
  cluster.server(0).Await([](const Counters& counters) { return counters.push_messages == 2; });
  push->Add(1, (*gradients)[1], gradients);
  push->Add(0, (*gradients)[0], gradients);
  push->Commit();
  EXPECT_EQ(push->Wait(Soon()), absl::OkStatus());
}

TEST(ParameterClientPushTest, BlocksOfAVariableLeaveBeforeItsRestIsThere) {
  TestCluster cluster({4 * kBlockElements}, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  const absl::Span<const float> gradient = (*gradients)[0];
  const auto push = client->StartPush(0, 1);
  push->AddFirst(0, kBlockElements + 1, gradient, gradients);
  cluster.server(0).Await([](const Counters& counters) { return counters.push_messages == 1; });
  push->AddFirst(0, 3 * kBlockElements, gradient, gradients);
  cluster.server(0).Await([](const Counters& counters) { return counters.push_messages == 3; });
  push->Add(0, gradient, gradients);
  push->Commit();
  ASSERT_EQ(push->Wait(Soon()), absl::OkStatus());
  EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(0)));
}

// A shard's slice begins and ends where the parts do not.
TEST(ParameterClientPushTest, PartsOfAVariableReachEachOfItsShards) {
  TestCluster cluster({3 * kBlockElements + 5, 7}, /*shards=*/3, /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  const auto push = client->StartPush(0, 1);
  for (size_t count = 0; count < (*gradients)[0].size(); count += 100'001) {
    push->AddFirst(0, count, (*gradients)[0], gradients);
  }
  for (size_t i = 0; i < 2; ++i) push->Add(i, (*gradients)[i], gradients);
  push->Commit();
  ASSERT_EQ(push->Wait(Soon()), absl::OkStatus());
  EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(0)));
}

// A gradient whose last variable turned out to be infinite had reached the shards that hold none of
// that variable, and was applied there.
TEST(ParameterClientPushTest, NothingTakesEffectBeforeTheCommit) {
  TestCluster cluster({3 * kBlockElements, 3 * kBlockElements}, /*shards=*/2,
                      /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  {
    const auto push = client->StartPush(0, 32);
    for (size_t i = 0; i < 2; ++i) push->Add(i, (*gradients)[i], gradients);
    cluster.server(0).Await([](const Counters& counters) {
      return counters.push_messages == 4 && counters.unfinished_pushes == 2;
    });
  }
  cluster.server(0).Await([](const Counters& counters) { return counters.unfinished_pushes == 0; });
  EXPECT_EQ(cluster.server(0).counters().applied, 0);
  EXPECT_EQ(cluster.Stored(), cluster.Zeros());
}

TEST(ParameterClientPushTest, CommitSendsTheRest) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/3, /*servers=*/1);
    const auto client = cluster.NewClient();
    const auto gradients = Gradients(cluster, 5);
    const auto push = client->StartPush(5, 32);
    for (size_t i = 0; i < sizes.size(); ++i) push->Add(i, (*gradients)[i], gradients);
    push->Commit();
    ASSERT_EQ(push->Wait(Soon()), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(5)));
  }
}

TEST(ParameterClientPushTest, StepThatIsAppliedAlreadyIsAcknowledged) {
  TestCluster cluster(kSmall, /*shards=*/2, /*servers=*/1);
  const auto client = cluster.NewClient();
  ASSERT_EQ(PushStep(&cluster, client.get(), 0), absl::OkStatus());
  ASSERT_EQ(PushStep(&cluster, client.get(), 0), absl::OkStatus());
  EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(0)));
}

TEST(ParameterClientPushTest, BrokenStreamIsOpenedAndItsPushSentAgain) {
  for (const auto& sizes : {kSmall, kLarge}) {
    TestCluster cluster(sizes, /*shards=*/1, /*servers=*/1);
    cluster.server(0).SetPushRule(
        Once({Verdict::kBreakStream, static_cast<int>(absl::StatusCode::kUnavailable), "test"}));
    const auto client = cluster.NewClient();
    ASSERT_EQ(PushStep(&cluster, client.get(), 3), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(3)));
    EXPECT_EQ(cluster.server(0).counters().applied, 1);
  }
}

TEST(ParameterClientPushTest, RetriableRefusalIsSentAgainUnderANewId) {
  for (absl::StatusCode code : {absl::StatusCode::kAborted, absl::StatusCode::kUnavailable,
                                absl::StatusCode::kResourceExhausted}) {
    Mutex mutex;
    std::vector<uint64_t> ids;
    const auto refuse = Once({Verdict::kRefuse, static_cast<int>(code), "later"});
    TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
    cluster.server(0).SetPushRule([&](const PushRequest& request) {
      MutexLock lock(&mutex);
      ids.push_back(request.push_id());
      return refuse(request);
    });
    const auto client = cluster.NewClient();
    ASSERT_EQ(PushStep(&cluster, client.get(), 3), absl::OkStatus());
    MutexLock lock(&mutex);
    ASSERT_EQ(ids.size(), 2u);
    EXPECT_NE(ids[0], ids[1]);
  }
}

TEST(ParameterClientPushTest, RefusalIsReturnedWithTheServersName) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/2);
  cluster.server(1).SetPushRule(
      Once({Verdict::kRefuse, static_cast<int>(absl::StatusCode::kFailedPrecondition),
            "generation 1; the shard is at 2"}));
  const auto client = cluster.NewClient();
  const absl::Status status = PushStep(&cluster, client.get(), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("ps-1 (127.0.0.1:"), HasSubstr("shard 1"),
                                       HasSubstr("generation 1; the shard is at 2")));
}

// A proxy's 401 or 403, or another server at the address of one that is gone: the job failed.
TEST(ParameterClientPushTest, StreamThatNoServerOfOursEndsIsOpenedAgain) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnauthenticated, absl::StatusCode::kPermissionDenied,
        absl::StatusCode::kUnimplemented}) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
    cluster.server(0).SetPushRule(
        Once({Verdict::kBreakStream, static_cast<int>(code), "not ours"}));
    const auto client = cluster.NewClient();
    ASSERT_EQ(PushStep(&cluster, client.get(), 3), absl::OkStatus());
    EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(3)));
  }
}

// What the network, or somebody else at the server's address, has made of it comes right.
TEST(ParameterClientPushTest, StreamThatIsRefusedAgainAndAgainEndsThePush) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  const Verdict refusal{Verdict::kBreakStream, static_cast<int>(absl::StatusCode::kInvalidArgument),
                        "no PushRequest"};
  const auto client = cluster.NewClient();
  cluster.server(0).SetPushRule(Once(refusal));
  EXPECT_EQ(PushStep(&cluster, client.get(), 0), absl::OkStatus());
  EXPECT_EQ(cluster.server(0).counters().applied, 1);
  cluster.server(0).SetPushRule([refusal](const PushRequest&) { return refusal; });
  EXPECT_EQ(PushStep(&cluster, client.get(), 1).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParameterClientPushTest, ServerThatComesBackGetsThePush) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/2);
  const auto client = cluster.NewClient();
  ASSERT_EQ(PushStep(&cluster, client.get(), 0), absl::OkStatus());
  cluster.server(1).Stop();
  const auto push = client->StartPush(1, 32);
  TestCluster::AddAll(Gradients(cluster, 1), push.get());
  EXPECT_EQ(push->Wait(Clock::Real()->Now()).code(), absl::StatusCode::kDeadlineExceeded);
  cluster.server(1).Restart();
  EXPECT_EQ(push->Wait(Soon()), absl::OkStatus());
  EXPECT_EQ(cluster.server(1).counters().applied, 2);
}

// A message that was lost on a connection that was not: the push waited for ever.
TEST(ParameterClientPushTest, PushThatIsNotAnsweredIsMadeAgain) {
  for (const auto& sizes : {kSmall, kLarge}) {
    for (const Verdict::Kind kind : {Verdict::kIgnore, Verdict::kLoseAnswer}) {
      TestCluster cluster(sizes, /*shards=*/1, /*servers=*/1);
      cluster.server(0).SetPushRule(Once({kind}));
      ParameterClientOptions options;
      options.call_timeout = absl::Milliseconds(50);
      const auto client = cluster.NewClient(options);
      ASSERT_EQ(PushStep(&cluster, client.get(), 3), absl::OkStatus());
      EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(3)));
      EXPECT_EQ(cluster.server(0).counters().applied, 1);
    }
  }
}

TEST(ParameterClientPushTest, SmallPushThatIsMadeAgainDisturbsNoOther) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPushRule(Once({Verdict::kIgnore}));
  ParameterClientOptions options;
  options.call_timeout = absl::Milliseconds(50);
  const auto client = cluster.NewClient(options);
  ASSERT_EQ(PushStep(&cluster, client.get(), 3), absl::OkStatus());
  EXPECT_EQ(cluster.server(0).counters().push_streams, 1);
}

// What is sent again on a slow network takes the place of what would arrive.
TEST(ParameterClientPushTest, PushWhoseMessagesMoveIsNotMadeAgain) {
  constexpr uint64_t kMessages = 60;  // Of a second each by the least pace of a network.
  SimulatedClock clock;
  TestCluster cluster({kMessages * kBlockElements}, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPushRule([&clock](const PushRequest&) {
    clock.Advance(absl::Milliseconds(1500));
    return Verdict();
  });
  const auto client = cluster.NewClient(/*connections_per_server=*/1, &clock);
  const auto push = client->StartPush(0, 32);
  TestCluster::AddAll(Gradients(cluster, 0), push.get());
  EXPECT_EQ(push->Wait(absl::InfiniteFuture()), absl::OkStatus());
  EXPECT_EQ(cluster.server(0).counters().push_messages, kMessages);
}

TEST(ParameterClientPushTest, WhatIsSlowOnceHasMoreTimeNextTime) {
  SimulatedClock clock;
  std::unique_ptr<ParameterClient::Push> push;
  std::atomic<uint64_t> sent{0};  // Steps; no time passes before that.
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  // The limit is 10 s. Whoever waits looks what has become of the push before the answer comes.
  cluster.server(0).SetPushRule([&](const PushRequest& request) {
    while (sent.load() <= request.step()) sent.wait(request.step());
    clock.Advance(absl::Seconds(request.step() == 0 ? 8 : 15));
    push->Wait(clock.Now()).IgnoreError();
    return Verdict();
  });
  const auto client = cluster.NewClient(/*connections_per_server=*/1, &clock);
  Values values = cluster.MakeValues(0);
  for (uint64_t step = 0; step < 2; ++step) {
    push = client->StartPush(step, 32);
    TestCluster::AddAll(Gradients(cluster, step), push.get());
    sent = step + 1;
    sent.notify_all();
    EXPECT_EQ(push->Wait(absl::InfiniteFuture()), absl::OkStatus());
    // That it is quick says nothing of pushes.
    EXPECT_EQ(client->Pull({}, TestCluster::Spans(&values)), absl::OkStatus());
  }
  EXPECT_EQ(cluster.server(0).counters().push_messages, 2);
}

TEST(ParameterClientPushTest, AnswerThatComesTwiceIsIgnored) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPushRule([](const PushRequest&) { return Verdict{Verdict::kRepeat}; });
  const auto client = cluster.NewClient();
  for (uint64_t step = 0; step < 10; ++step) {
    ASSERT_EQ(PushStep(&cluster, client.get(), step), absl::OkStatus());
  }
  EXPECT_EQ(cluster.server(0).counters().applied, 10);
}

TEST(ParameterClientPushTest, DeadlineNamesTheServersThatAreWaitedFor) {
  TestCluster cluster(kSmall, /*shards=*/2, /*servers=*/2);
  cluster.server(1).SetPushRule([](const PushRequest& request) {
    return request.step() == 7 ? Verdict{Verdict::kIgnore} : Verdict();
  });
  SimulatedClock clock;
  const auto client = cluster.NewClient(/*connections_per_server=*/1, &clock);
  const auto push = client->StartPush(7, 32);
  TestCluster::AddAll(Gradients(cluster, 7), push.get());
  // When this one is answered, so is the first one by ps-0: answers come in order.
  ASSERT_EQ(PushStep(&cluster, client.get(), 8), absl::OkStatus());
  const absl::Status status = push->Wait(clock.Now());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("step 7"), HasSubstr("ps-1 (127.0.0.1:"),
                                       ::testing::Not(HasSubstr("ps-0"))));
}

TEST(ParameterClientPushTest, CancelWakesWhoeverWaitsAndEndsLaterPushes) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/1);
  cluster.server(0).SetPushRule([](const PushRequest&) { return Verdict{Verdict::kIgnore}; });
  const auto client = cluster.NewClient();
  const auto push = client->StartPush(0, 32);
  TestCluster::AddAll(Gradients(cluster, 0), push.get());
  std::thread wait([&push] {
    EXPECT_EQ(push->Wait(absl::InfiniteFuture()).code(), absl::StatusCode::kCancelled);
  });
  cluster.server(0).Await([](const Counters& counters) { return counters.push_messages > 0; });
  client->Cancel();
  wait.join();
  EXPECT_EQ(PushStep(&cluster, client.get(), 1).code(), absl::StatusCode::kCancelled);
}

TEST(ParameterClientPushTest, AbandonedPushLeavesNoTraceAndOthersGoOn) {
  TestCluster cluster(kLarge, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto gradients = Gradients(cluster, 0);
  auto push = client->StartPush(0, 32);
  push->Add(0, (*gradients)[0], gradients);
  cluster.server(0).Await([](const Counters& counters) {
    return counters.push_messages == 4 && counters.unfinished_pushes == 1;
  });
  push.reset();
  cluster.server(0).Await([](const Counters& counters) { return counters.unfinished_pushes == 0; });
  ASSERT_EQ(PushStep(&cluster, client.get(), 1), absl::OkStatus());
  EXPECT_EQ(cluster.Stored(), Negative(cluster.MakeValues(1)));
}

TEST(ParameterClientPushTest, GradientIsLetGoAfterThePush) {
  TestCluster cluster(kLarge, /*shards=*/2, /*servers=*/2);
  Mutex mutex;
  CondVar changed;
  bool released = false;
  const auto client = cluster.NewClient();
  {
    const std::shared_ptr<const Values> gradients(new Values(cluster.MakeValues(0)),
                                                  [&](const Values* values) {
                                                    delete values;
                                                    MutexLock lock(&mutex);
                                                    released = true;
                                                    changed.SignalAll();
                                                  });
    const auto push = client->StartPush(0, 32);
    TestCluster::AddAll(gradients, push.get());
    ASSERT_EQ(push->Wait(Soon()), absl::OkStatus());
  }
  MutexLock lock(&mutex);
  while (!released) ASSERT_FALSE(changed.WaitWithTimeout(&mutex, absl::Seconds(60)));
}

TEST(ParameterClientPushTest, ClientMayGoBeforeItsPush) {
  TestCluster cluster(kLarge, /*shards=*/1, /*servers=*/1);
  cluster.server(0).SetPushRule([](const PushRequest&) { return Verdict{Verdict::kIgnore}; });
  auto client = cluster.NewClient();
  const auto push = client->StartPush(0, 32);
  TestCluster::AddAll(Gradients(cluster, 0), push.get());
  client.reset();
  EXPECT_EQ(push->Wait(absl::InfiniteFuture()).code(), absl::StatusCode::kCancelled);
}

TEST(ParameterClientPushDeathTest, VariableThatWasNotAddedIsABug) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  const auto client = cluster.NewClient();
  const auto push = client->StartPush(0, 32);
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(push->Commit(), "was not added");
}

TEST(ParameterClientTest, RoutingWithAHoleIsRefused) {
  TestCluster cluster(kSmall, /*shards=*/2, /*servers=*/1);
  Routing routing = cluster.routing();
  routing.mutable_shards()->RemoveLast();
  EXPECT_EQ(ParameterClient::Create("job", kSmall, routing, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParameterClientTest, NumberOfConnectionsIsChecked) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  ParameterClientOptions options;
  options.connections_per_server = 0;
  const auto client = ParameterClient::Create("job", kSmall, cluster.routing(), options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(client.status().ToString(), HasSubstr("connections_per_server: 0"));
  options.connections_per_server = 64;
  EXPECT_TRUE(ParameterClient::Create("job", kSmall, cluster.routing(), options).ok());
  options.connections_per_server = 65;
  EXPECT_EQ(ParameterClient::Create("job", kSmall, cluster.routing(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParameterClientTest, CallTimeoutIsChecked) {
  TestCluster cluster(kSmall, /*shards=*/1, /*servers=*/1);
  ParameterClientOptions options;
  options.call_timeout = absl::ZeroDuration();
  const auto client = ParameterClient::Create("job", kSmall, cluster.routing(), options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(client.status().ToString(), HasSubstr("call_timeout: 0"));
}

TEST(ParameterClientPushTest, GradientInAnyEncodingIsAppliedOnEveryShard) {
  for (const auto encoding : {Encoding::FLOAT16, Encoding::BFLOAT16}) {
    for (const auto& sizes : {kSmall, kLarge}) {
      TestCluster cluster(sizes, /*shards=*/3, /*servers=*/2);
      const auto client = cluster.NewClient();
      const auto gradients = std::make_shared<Values>(cluster.MakeValues(4));
      const auto push = client->StartPush(4, 32);
      Values expected = cluster.Zeros();
      for (size_t v = 0; v < gradients->size(); ++v) {
        std::vector<float>& gradient = (*gradients)[v];
        for (float& each : gradient) each = std::fmod(each, 256.0f);  // What both encodings have.
        for (size_t i = 0; i < gradient.size(); ++i) expected[v][i] = -gradient[i];
        ASSERT_EQ(NarrowFinite(gradient, encoding, gradient.data()), gradient.size());
        push->Add(v, EncodedNumbers(encoding, gradient.data(), gradient.size()), gradients);
      }
      push->Commit();
      ASSERT_EQ(push->Wait(Soon()), absl::OkStatus());
      EXPECT_EQ(cluster.Stored(), expected);
    }
  }
}

}  // namespace
}  // namespace millrace::worker
