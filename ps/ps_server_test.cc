#include "ps/ps_server.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/net/channel.h"
#include "common/net/raw_call.h"
#include "common/proto_duration.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/ps_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::EncodedAs;
using ::millrace::testing::MakePull;
using ::millrace::testing::MakePush;
using ::millrace::testing::MakeShardSpec;
using ::millrace::testing::NewTestDirectory;
using ::millrace::testing::PieceRange;
using ::millrace::testing::Pulled;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::WholeShard;
using ::testing::Each;
using ::testing::HasSubstr;

class PsServerTest : public ::testing::Test {
 protected:
  PsServerTest() : data_dir_(NewTestDirectory("data")) { Start(); }

  void Start() {
    PsServerOptions options;
    options.data_dir = data_dir_;
    absl::StatusOr<std::unique_ptr<PsServer>> server = PsServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = CreateChannel(server_->address());
    data_ = ParameterServer::NewStub(channel_);
    admin_ = ParameterServerAdmin::NewStub(channel_);
  }

  void Restart() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
    Start();
  }

  grpc::Status Create(const ShardSpec& spec, uint64_t generation = 1) {
    CreateShardRequest request;
    *request.mutable_spec() = spec;
    request.set_generation(generation);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->CreateShard(&context, request, &status);
  }

  ShardStatus Get(const ShardSpec& spec) {
    GetShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    grpc::ClientContext context;
    ShardStatus status;
    EXPECT_TRUE(admin_->GetShard(&context, request, &status).ok());
    return status;
  }

  grpc::Status SetGeneration(const ShardSpec& spec, uint64_t generation) {
    SetGenerationRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(generation);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->SetGeneration(&context, request, &status);
  }

  grpc::Status Pin(const ShardSpec& spec, const std::string& cut_id, ShardStatus* status) {
    PinCutRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(1);
    request.set_cut_id(cut_id);
    grpc::ClientContext context;
    return admin_->PinCut(&context, request, status);
  }

  grpc::Status Drop(const ShardSpec& spec, uint64_t generation = 1) {
    DropShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(generation);
    grpc::ClientContext context;
    DropShardResponse response;
    return admin_->DropShard(&context, request, &response);
  }

  const std::string data_dir_;
  std::unique_ptr<PsServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterServer::Stub> data_;
  std::unique_ptr<ParameterServerAdmin::Stub> admin_;
};

TEST_F(PsServerTest, PushedGradientIsSeenByTheNextPull) {
  const ShardSpec spec = MakeShardSpec({3, kBlockElements + 5});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  const PushResponse response = pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), -2));
  EXPECT_EQ(response.push_id(), 1);
  EXPECT_EQ(response.code(), 0) << response.message();
  EXPECT_EQ(response.outcome(), PushResponse::APPLIED);
  EXPECT_EQ(response.version(), 1);

  Puller puller(data_.get(), spec);
  const Pulled pulled = puller.Pull();
  EXPECT_EQ(pulled.code, 0) << pulled.message;
  EXPECT_EQ(pulled.version, 1);
  EXPECT_EQ(pulled.elements, kBlockElements + 8);
  EXPECT_THAT(pulled.slices[0], Each(2));
  EXPECT_THAT(pulled.slices[1], Each(2));
}

TEST_F(PsServerTest, VariablesAreFloatsHoweverTheyTravel) {
  ShardSpec spec = MakeShardSpec({3, kBlockElements + 5, 2});
  spec.mutable_slices(2)->mutable_update()->mutable_moving_average()->set_momentum(0.5);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  const PushRequest small = MakePush(spec, 0, 1, WholeShard(spec), -0.001953125f);
  EXPECT_EQ(pusher.Push(EncodedAs(Encoding::FLOAT16, small)).code(), 0);
  const PushRequest large = MakePush(spec, 1, 2, WholeShard(spec), -1);
  EXPECT_EQ(pusher.Push(EncodedAs(Encoding::BFLOAT16, large)).code(), 0);

  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  const Pulled exact = puller.Pull(request);
  EXPECT_EQ(exact.encoding, Encoding::FLOAT32);
  EXPECT_THAT(exact.slices[0], Each(1.001953125f));
  EXPECT_THAT(exact.slices[1], Each(1.001953125f));
  request.set_encoding(Encoding::FLOAT16);
  const Pulled halves = puller.Pull(request);
  EXPECT_EQ(halves.encoding, Encoding::FLOAT16);
  EXPECT_EQ(halves.slices, exact.slices) << "float16 has them";
  EXPECT_EQ(halves.bytes, 2 * (kBlockElements + 8) + 4 * 2) << "statistics are as they were";
  request.set_encoding(Encoding::BFLOAT16);
  const Pulled rounded = puller.Pull(request);
  EXPECT_THAT(rounded.slices[0], Each(1));
  EXPECT_THAT(rounded.slices[1], Each(1));
  EXPECT_EQ(rounded.slices[2], exact.slices[2]);
}

// A worker that knows float32 alone beside one that rounds.
TEST_F(PsServerTest, ContributionsOfOneVersionMayTravelDifferently) {
  const ShardSpec spec = MakeShardSpec({3, kBlockElements + 5}, /*replicas=*/2);
  ASSERT_TRUE(Create(spec).ok());
  Pusher one(data_.get());
  Pusher other(data_.get());
  PushRequest exact = MakePush(spec, 0, 1, WholeShard(spec), 1.001f);
  exact.set_examples(3);
  EXPECT_EQ(one.Push(exact).outcome(), PushResponse::HELD);
  const PushRequest rounded = MakePush(spec, 1, 2, WholeShard(spec), 1.001f);
  EXPECT_EQ(other.Push(EncodedAs(Encoding::BFLOAT16, rounded)).outcome(), PushResponse::APPLIED);
  Puller puller(data_.get(), spec);
  const Pulled pulled = puller.Pull();
  EXPECT_EQ(pulled.version, 1u);
  const float mean = (1.001f * 3 + 1.0f) / 4;
  EXPECT_THAT(pulled.slices[0], Each(-mean));
  EXPECT_THAT(pulled.slices[1], Each(-mean));
}

TEST_F(PsServerTest, ValueThatDoesNotFitTheEncodingEndsThePull) {
  const ShardSpec spec = MakeShardSpec({3, 5});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  PushRequest push = MakePush(spec, 0, 1, WholeShard(spec), 0);
  const float value = -70000;
  std::memcpy(&(*push.mutable_pieces(1)->mutable_data())[4], &value, sizeof(value));
  EXPECT_EQ(pusher.Push(push).code(), 0);
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_encoding(Encoding::FLOAT16);
  const Pulled pulled = puller.Pull(request);
  EXPECT_EQ(pulled.code, static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(pulled.message, HasSubstr("is 70000, which FLOAT16 cannot hold"));
  EXPECT_THAT(pulled.message, HasSubstr("element 1 of variable"));
  request.set_encoding(Encoding::BFLOAT16);
  EXPECT_EQ(puller.Pull(request).code, 0) << "the stream goes on";
}

TEST_F(PsServerTest, PushOfAppliedStepIsAcknowledgedAndIgnored) {
  const ShardSpec spec = MakeShardSpec({7});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  EXPECT_EQ(pusher.Push(MakePush(spec, 4, 1, WholeShard(spec), 1)).outcome(),
            PushResponse::APPLIED);
  const PushResponse again = pusher.Push(MakePush(spec, 4, 2, WholeShard(spec), 1));
  EXPECT_EQ(again.outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_EQ(again.code(), 0);
  Puller puller(data_.get(), spec);
  EXPECT_THAT(puller.Pull().slices[0], Each(-1));
}

TEST_F(PsServerTest, PushOverSeveralStreamsIsAnsweredOnTheOneThatCompletesIt) {
  const ShardSpec spec = MakeShardSpec({10});
  ASSERT_TRUE(Create(spec).ok());
  Pusher first(data_.get());
  Pusher second(data_.get());
  ASSERT_TRUE(first.Write(MakePush(spec, 0, 1, {{0, 0, 4}}, 1)));
  // The first stream's message has come when its next push, which is whole, is answered.
  EXPECT_EQ(first.Push(MakePush(spec, 1, 2, WholeShard(spec), 1)).push_id(), 2);
  const PushResponse response = second.Push(MakePush(spec, 0, 1, {{0, 4, 6}}, 1));
  EXPECT_EQ(response.push_id(), 1);
  EXPECT_EQ(response.outcome(), PushResponse::APPLIED);
  Puller puller(data_.get(), spec);
  EXPECT_THAT(puller.Pull().slices[0], Each(-2));
}

TEST_F(PsServerTest, BrokenStreamLeavesNoTrace) {
  const ShardSpec spec = MakeShardSpec({10});
  ASSERT_TRUE(Create(spec).ok());
  Pusher broken(data_.get());
  Pusher whole(data_.get());
  ASSERT_TRUE(broken.Write(MakePush(spec, 0, 1, {{0, 0, 4}}, 1)));
  EXPECT_EQ(broken.Push(MakePush(spec, 1, 2, WholeShard(spec), 1)).push_id(), 2);
  broken.Cancel();
  EXPECT_EQ(broken.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The rest comes too late. Until the server has seen the end of the stream, the push may still be
  // completed: so the other stream holds back its last elements, and brings one that is there.
  PushResponse late;
  do {
    late = whole.Push(MakePush(spec, 0, 1, {{0, 3, 2}}, 1));
  } while (late.code() == static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(late.code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(whole.Push(MakePush(spec, 0, 3, WholeShard(spec), 1)).outcome(), PushResponse::APPLIED);
  Puller puller(data_.get(), spec);
  EXPECT_THAT(puller.Pull().slices[0], Each(-2));
}

TEST_F(PsServerTest, HalfClosedStreamStillGetsItsAnswers) {
  const ShardSpec spec = MakeShardSpec({10});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  ASSERT_TRUE(pusher.Write(MakePush(spec, 0, 1, WholeShard(spec), 1)));
  pusher.WritesDone();
  const absl::optional<PushResponse> response = pusher.Read();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->outcome(), PushResponse::APPLIED);
  EXPECT_FALSE(pusher.Read().has_value());
  EXPECT_TRUE(pusher.Finish().ok());
}

TEST_F(PsServerTest, PartsOfAPullMakeUpTheShard) {
  const ShardSpec spec = MakeShardSpec({3 * kBlockElements + 1, 2, 5});
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  for (uint32_t parts : {1, 2, 3, 4, 9}) {
    uint64_t elements = 0;
    for (uint32_t part = 0; part < parts; ++part) {
      PullRequest request = MakePull(spec);
      request.set_part(part);
      request.set_parts(parts);
      const Pulled pulled = puller.Pull(request);
      EXPECT_EQ(pulled.code, 0) << pulled.message;
      elements += pulled.elements;
    }
    EXPECT_EQ(elements, 3 * kBlockElements + 8) << parts << " parts";
  }
}

TEST_F(PsServerTest, PullOfAFutureVersionWaitsForIt) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/2);
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_version(1);
  puller.Send(request);
  Pusher pusher(data_.get());
  EXPECT_EQ(pusher.Push(MakePush(spec, 1, 1, WholeShard(spec), 1)).outcome(), PushResponse::HELD);
  EXPECT_EQ(pusher.Push(MakePush(spec, 1, 2, WholeShard(spec), 1)).outcome(), PushResponse::HELD);
  EXPECT_EQ(pusher.Push(MakePush(spec, 0, 3, WholeShard(spec), 3)).outcome(),
            PushResponse::APPLIED);
  const Pulled pulled = puller.Receive();
  EXPECT_EQ(pulled.version, 1);
  EXPECT_THAT(pulled.slices[0], Each(-2));
  // The version before is still there.
  request.set_version(0);
  EXPECT_THAT(puller.Pull(request).slices[0], Each(0));
}

TEST_F(PsServerTest, PullThatTimesOutNamesTheMissingSteps) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/3);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  EXPECT_EQ(pusher.Push(MakePush(spec, 1, 1, WholeShard(spec), 1)).outcome(), PushResponse::HELD);
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_version(1);
  *request.mutable_timeout() = ToProto(absl::Milliseconds(1));
  const Pulled pulled = puller.Pull(request);
  EXPECT_EQ(pulled.code, static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(pulled.message, HasSubstr("waits for steps 0, 2"));
  // The stream goes on.
  EXPECT_EQ(puller.Pull().code, 0);
}

TEST_F(PsServerTest, CancelledPullStopsWaiting) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_version(1);
  *request.mutable_timeout() = ToProto(absl::Hours(1));
  puller.Send(request);
  puller.Cancel();
  EXPECT_EQ(puller.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(PsServerTest, NewGenerationFencesPushesAndPulls) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  ASSERT_TRUE(pusher.Write(MakePush(spec, 0, 1, {{0, 0, 1}}, 1)));
  Puller puller(data_.get(), spec);
  EXPECT_EQ(puller.Pull().code, 0);
  ASSERT_TRUE(SetGeneration(spec, 2).ok());
  const PushResponse response = pusher.Push(MakePush(spec, 0, 1, {{0, 1, 3}}, 1));
  EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(response.message(), HasSubstr("generation 2, the request at 1"));
  EXPECT_EQ(puller.Pull().code, static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(SetGeneration(spec, 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Get(spec).generation(), 2);
  EXPECT_EQ(Get(spec).version(), 0);
  Restart();
  EXPECT_EQ(Get(spec).generation(), 2);
}

TEST_F(PsServerTest, FencingEndsWaitingPulls) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_version(1);
  puller.Send(request);
  ASSERT_TRUE(SetGeneration(spec, 2).ok());
  EXPECT_EQ(puller.Receive().code, static_cast<int>(absl::StatusCode::kFailedPrecondition));
}

TEST_F(PsServerTest, PinnedCutStaysAsItWas) {
  const ShardSpec spec = MakeShardSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1));
  ShardStatus status;
  ASSERT_TRUE(Pin(spec, "evaluation", &status).ok());
  EXPECT_EQ(status.version(), 1);
  pusher.Push(MakePush(spec, 1, 2, WholeShard(spec), 1));
  ASSERT_TRUE(Pin(spec, "evaluation", &status).ok()) << "a repeated call";
  EXPECT_EQ(status.version(), 1);

  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_cut_id("evaluation");
  EXPECT_THAT(puller.Pull(request).slices[0], Each(-1));
  EXPECT_THAT(puller.Pull().slices[0], Each(-2));
  UnpinCutRequest unpin;
  unpin.set_job_id(spec.job_id());
  unpin.set_generation(1);
  unpin.set_cut_id("evaluation");
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    UnpinCutResponse response;
    EXPECT_TRUE(admin_->UnpinCut(&context, unpin, &response).ok());
  }
  const Pulled gone = puller.Pull(request);
  EXPECT_EQ(gone.code, static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(gone.message, HasSubstr("'evaluation'"));
}

TEST_F(PsServerTest, CleanStopLosesNothing) {
  const ShardSpec asynchronous = MakeShardSpec({4, kBlockElements + 1});
  ShardSpec synchronous = MakeShardSpec({4}, /*replicas=*/2);
  synchronous.set_shard(1);
  ASSERT_TRUE(Create(asynchronous).ok());
  ASSERT_TRUE(Create(synchronous).ok());
  {
    Pusher pusher(data_.get());
    for (uint64_t step : {0, 1, 5}) {
      pusher.Push(MakePush(asynchronous, step, step, WholeShard(asynchronous), 1));
    }
    for (uint64_t step : {0, 1, 3}) {
      pusher.Push(MakePush(synchronous, step, step, WholeShard(synchronous), 1));
    }
  }
  Restart();
  EXPECT_EQ(Get(asynchronous).version(), 3);
  EXPECT_EQ(Get(asynchronous).applied().watermark(), 2);
  EXPECT_EQ(Get(asynchronous).flushed_version(), 3);
  EXPECT_EQ(Get(synchronous).version(), 1);
  EXPECT_THAT(Get(synchronous).held().above(), ::testing::ElementsAre(3));

  Puller puller(data_.get(), synchronous);
  PullRequest request = MakePull(synchronous);
  request.set_version(0);
  EXPECT_THAT(puller.Pull(request).slices[0], Each(0)) << "the version before";
  Pusher pusher(data_.get());
  EXPECT_EQ(pusher.Push(MakePush(synchronous, 3, 7, WholeShard(synchronous), 9)).outcome(),
            PushResponse::HELD);
  EXPECT_EQ(pusher.Push(MakePush(synchronous, 2, 8, WholeShard(synchronous), 3)).outcome(),
            PushResponse::APPLIED);
  EXPECT_THAT(puller.Pull().slices[0], Each(-3));
}

TEST_F(PsServerTest, StopEndsStreamsWithUnavailable) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1));
  Puller puller(data_.get(), spec);
  EXPECT_EQ(puller.Pull().code, 0);
  ASSERT_TRUE(server_->Stop().ok());
  ASSERT_TRUE(server_->Stop().ok()) << "once more";
  EXPECT_FALSE(pusher.Read().has_value());
  EXPECT_EQ(pusher.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(puller.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(PsServerTest, DroppedShardIsGoneForGood) {
  const ShardSpec spec = MakeShardSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1));
  ASSERT_TRUE(Drop(spec).ok());
  ASSERT_TRUE(Drop(spec).ok()) << "once more";
  const PushResponse response = pusher.Push(MakePush(spec, 1, 2, WholeShard(spec), 1));
  EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(response.message(), HasSubstr("shard 0 of job 'job'"));
  Restart();
  ASSERT_TRUE(Create(spec).ok());
  EXPECT_EQ(Get(spec).version(), 0);
}

// A stranger's greatest number would have kept the coordinator from ever setting a greater one.
TEST_F(PsServerTest, GenerationsAreBelowTwoToTheThirtyTwo) {
  const ShardSpec spec = MakeShardSpec({4});
  EXPECT_EQ(Create(spec, uint64_t{1} << 32).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Create(spec).ok());
  EXPECT_EQ(SetGeneration(spec, ~uint64_t{0}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Drop(spec, uint64_t{1} << 32).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(SetGeneration(spec, (uint64_t{1} << 32) - 1).ok());
}

TEST_F(PsServerTest, CreatingAShardAgainIsNoErrorUnlessTheSpecDiffers) {
  const ShardSpec spec = MakeShardSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  ASSERT_TRUE(Create(spec, 3).ok());
  EXPECT_EQ(Get(spec).generation(), 3);
  EXPECT_EQ(Create(MakeShardSpec({5})).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(PsServerTest, FlushCutReturnsWhenTheVersionIsInTheDatabase) {
  const ShardSpec spec = MakeShardSpec({4, kBlockElements});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1));
  FlushCutRequest request;
  request.set_job_id(spec.job_id());
  request.set_generation(1);
  ShardStatus status;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(admin_->FlushCut(&context, request, &status).ok());
    EXPECT_EQ(status.flushed_version(), 1);
  }
}

struct BadPush {
  const char* name;
  void (*spoil)(PushRequest* push);
  absl::StatusCode code;
  const char* message;
};

class BadPushTest : public PsServerTest, public ::testing::WithParamInterface<BadPush> {};

TEST_P(BadPushTest, IsRefusedAndChangesNothing) {
  const ShardSpec spec = MakeShardSpec({4, 6}, /*replicas=*/2, /*total_steps=*/100);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  PushRequest push = MakePush(spec, 0, 1, WholeShard(spec), 1);
  GetParam().spoil(&push);
  const PushResponse response = pusher.Push(push);
  EXPECT_EQ(response.code(), static_cast<int>(GetParam().code)) << response.message();
  EXPECT_EQ(response.outcome(), PushResponse::REFUSED);
  EXPECT_EQ(response.push_id(), 1);
  EXPECT_THAT(response.message(), HasSubstr(GetParam().message));
  // The push is void; the stream is not.
  const PushResponse later = pusher.Push(MakePush(spec, 0, 2, WholeShard(spec), 1));
  EXPECT_EQ(later.outcome(), PushResponse::HELD) << later.message();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPushTest,
    ::testing::Values(
        BadPush{"UnknownJob", [](PushRequest* push) { push->set_job_id("other"); },
                absl::StatusCode::kNotFound, "shard 0 of job 'other'"},
        BadPush{"UnknownShard", [](PushRequest* push) { push->set_shard(7); },
                absl::StatusCode::kNotFound, "shard 7 of job 'job'"},
        BadPush{"OldGeneration", [](PushRequest* push) { push->set_generation(0); },
                absl::StatusCode::kFailedPrecondition, "at generation 1, the request at 0"},
        BadPush{"NewGeneration", [](PushRequest* push) { push->set_generation(2); },
                absl::StatusCode::kFailedPrecondition, "at generation 1, the request at 2"},
        BadPush{"UnknownSlice", [](PushRequest* push) { push->mutable_pieces(1)->set_slice(2); },
                absl::StatusCode::kInvalidArgument, "piece.slice: 2"},
        BadPush{"OffsetPastTheEnd",
                [](PushRequest* push) { push->mutable_pieces(1)->set_offset(1); },
                absl::StatusCode::kInvalidArgument, "slice 1 of the shard has 6 elements"},
        BadPush{"HugeOffset",
                [](PushRequest* push) { push->mutable_pieces(1)->set_offset(~uint64_t{0} - 2); },
                absl::StatusCode::kInvalidArgument, "slice 1 of the shard has 6 elements"},
        BadPush{"ElementTwice", [](PushRequest* push) { *push->add_pieces() = push->pieces(0); },
                absl::StatusCode::kInvalidArgument, "overlaps"},
        BadPush{"PartOfAFloat",
                [](PushRequest* push) { push->mutable_pieces(1)->mutable_data()->pop_back(); },
                absl::StatusCode::kInvalidArgument, "pieces[1].data: 23 bytes"},
        BadPush{"PartOfABfloat16",
                [](PushRequest* push) { push->mutable_pieces(1)->set_bfloat16("abc"); },
                absl::StatusCode::kInvalidArgument, "pieces[1].bfloat16: 3 bytes"},
        BadPush{"InfinityInFloat16",
                [](PushRequest* push) {
                  push->mutable_pieces(1)->set_float16(
                      std::string("\0\0\0\x7c\0\0\0\0\0\0\0\0", 12));
                },
                absl::StatusCode::kInvalidArgument, "has inf at element 1"},
        BadPush{"NoData", [](PushRequest* push) { push->add_pieces(); },
                absl::StatusCode::kInvalidArgument, "has no data"},
        BadPush{"StepPastTheEnd", [](PushRequest* push) { push->set_step(100); },
                absl::StatusCode::kInvalidArgument, "step: 100"},
        BadPush{"StepOfALaterVersion", [](PushRequest* push) { push->set_step(2); },
                absl::StatusCode::kOutOfRange, "version 1"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST_F(PsServerTest, BytesThatAreNoMessageEndTheStream) {
  const ShardSpec spec = MakeShardSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  PushRequest push = MakePush(spec, 0, 1, WholeShard(spec), 1);
  push.set_job_id("\xff");  // Not UTF-8.
  Pusher pusher(data_.get());
  ASSERT_TRUE(pusher.Write(push));
  EXPECT_FALSE(pusher.Read().has_value());
  EXPECT_EQ(pusher.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Such calls once ended with INTERNAL and no text.
TEST_F(PsServerTest, BytesThatAreNoRequestAreRefusedByName) {
  for (const char* method : {"CreateShard", "GetShard", "SetGeneration", "PlanCuts", "StepBack",
                             "PinCut", "UnpinCut", "FlushCut", "RetireShard", "DropShard"}) {
    const absl::Status status = CallRaw(
        server_->address(), std::string("/millrace.ParameterServerAdmin/") + method, "\xff\xff");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << method;
    const std::string name = std::string("millrace.") + method + "Request";
    EXPECT_THAT(std::string(status.message()), HasSubstr("its bytes are no " + name));
  }
}

TEST_F(PsServerTest, EveryPushOfALongStreamIsAnswered) {
  constexpr uint64_t kPushes = 5000;
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/0, /*total_steps=*/kPushes);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  std::thread writer([&] {
    for (uint64_t step = 0; step < kPushes; ++step) {
      EXPECT_TRUE(pusher.Write(MakePush(spec, step, step, WholeShard(spec), 1)));
    }
    pusher.WritesDone();
  });
  uint64_t answers = 0;
  while (const absl::optional<PushResponse> answer = pusher.Read()) {
    EXPECT_EQ(answer->outcome(), PushResponse::APPLIED);
    ++answers;
  }
  writer.join();
  EXPECT_EQ(answers, kPushes);
  EXPECT_TRUE(pusher.Finish().ok());
}

TEST_F(PsServerTest, BadPullsAreRefused) {
  const ShardSpec spec = MakeShardSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  for (uint64_t step = 0; step < 3; ++step) {
    pusher.Push(MakePush(spec, step, step, WholeShard(spec), 1));
  }
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_job_id("other");
  EXPECT_EQ(puller.Pull(request).code, static_cast<int>(absl::StatusCode::kNotFound));
  request = MakePull(spec);
  request.set_part(2);
  request.set_parts(2);
  EXPECT_EQ(puller.Pull(request).code, static_cast<int>(absl::StatusCode::kInvalidArgument));
  request = MakePull(spec);
  request.set_encoding(static_cast<Encoding::Kind>(3));
  EXPECT_EQ(puller.Pull(request).message, "encoding: 3; must be one of FLOAT32, FLOAT16, BFLOAT16");
  request = MakePull(spec);
  request.set_version(1);
  EXPECT_EQ(puller.Pull(request).code, static_cast<int>(absl::StatusCode::kAborted));
  request = MakePull(spec);
  request.set_generation(9);
  EXPECT_EQ(puller.Pull(request).code, static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(puller.Pull().version, 3);
}

TEST_F(PsServerTest, WrongSpecsAreRefusedByTheFieldsPath) {
  ShardSpec spec = MakeShardSpec({});
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices"));
  spec = MakeShardSpec({4, 0});
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices[1].slice.length"));
  spec = MakeShardSpec({~uint64_t{0}, ~uint64_t{0}});
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices[0].slice.length"));
  spec = MakeShardSpec({4});
  spec.set_total_steps(0);
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.total_steps"));
  spec = MakeShardSpec({4});
  spec.clear_job_id();
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.job_id"));
  spec = MakeShardSpec({4});
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(2);
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("momentum"));
  spec = MakeShardSpec({4});
  spec.mutable_slices(0)->clear_initial_value();
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices[0].initial_value"));
  spec = MakeShardSpec({4});
  spec.mutable_cut_period();
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.cut_period"));
}

TEST_F(PsServerTest, ShardThatNoMachineCanHoldIsRefused) {
  EXPECT_EQ(Create(MakeShardSpec({uint64_t{1} << 38})).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PsServerTest, SecondServerOnTheDirectoryIsRefused) {
  PsServerOptions options;
  options.data_dir = data_dir_;
  const absl::StatusOr<std::unique_ptr<PsServer>> second = PsServer::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(data_dir_));
}

}  // namespace
}  // namespace millrace::ps
