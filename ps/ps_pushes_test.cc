// What becomes of pushes over the wire.
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server_fixture.h"
#include "ps/ps_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::EncodedAs;
using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Pulled;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::WholeShard;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(PsServerTest, PushedGradientIsSeenByTheNextPull) {
  const ShardSpec spec = MakeSpec({3, kBlockElements + 5});
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

// A worker that knows float32 alone beside one that rounds.
TEST_F(PsServerTest, ContributionsOfOneVersionMayTravelDifferently) {
  const ShardSpec spec = MakeSpec({3, kBlockElements + 5}, /*replicas=*/2);
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

TEST_F(PsServerTest, PushOfAppliedStepIsAcknowledgedAndIgnored) {
  const ShardSpec spec = MakeSpec({7});
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
  const ShardSpec spec = MakeSpec({10});
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
  const ShardSpec spec = MakeSpec({10});
  ASSERT_TRUE(Create(spec).ok());
  Pusher broken(data_.get());
  Pusher whole(data_.get());
  ASSERT_TRUE(broken.Write(MakePush(spec, 0, 1, {{0, 0, 4}}, 1)));
  EXPECT_EQ(broken.Push(MakePush(spec, 1, 2, WholeShard(spec), 1)).push_id(), 2);
  broken.Cancel();
  EXPECT_EQ(broken.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The rest comes too late. Until the server has seen the end of the stream, the push is there: so
  // the other stream brings the message that has come already, which counts once and is answered
  // only when the push is void. A step that is applied already says when there was no answer.
  PushResponse late;
  for (uint64_t push_id = 10; late.push_id() != 1; ++push_id) {
    ASSERT_TRUE(whole.Write(MakePush(spec, 0, 1, {{0, 0, 4}}, 1)));
    late = whole.Push(MakePush(spec, 1, push_id, WholeShard(spec), 1));
  }
  EXPECT_EQ(late.code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(whole.Read()->outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_EQ(whole.Push(MakePush(spec, 0, 3, WholeShard(spec), 1)).outcome(), PushResponse::APPLIED);
  Puller puller(data_.get(), spec);
  EXPECT_THAT(puller.Pull().slices[0], Each(-2));
}

TEST_F(PsServerTest, HalfClosedStreamStillGetsItsAnswers) {
  const ShardSpec spec = MakeSpec({10});
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

TEST_F(PsServerTest, HalfClosedStreamEndsAlthoughAPushOfItLacksElements) {
  const ShardSpec spec = MakeSpec({10});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  ASSERT_TRUE(pusher.Write(MakePush(spec, 0, 1, {{0, 0, 4}}, 1)));
  pusher.WritesDone();
  EXPECT_FALSE(pusher.Read().has_value());
  EXPECT_TRUE(pusher.Finish().ok());
  Pusher other(data_.get());
  EXPECT_EQ(other.Push(MakePush(spec, 0, 1, {{0, 4, 6}}, 1)).code(),
            static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(other.Push(MakePush(spec, 0, 2, WholeShard(spec), 1)).outcome(), PushResponse::APPLIED);
  Puller puller(data_.get(), spec);
  EXPECT_THAT(puller.Pull().slices[0], Each(-1));
}

TEST_F(PsServerTest, BytesThatAreNoMessageEndTheStream) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  PushRequest push = MakePush(spec, 0, 1, WholeShard(spec), 1);
  push.set_job_id("\xff");  // Not UTF-8.
  Pusher pusher(data_.get());
  ASSERT_TRUE(pusher.Write(push));
  EXPECT_FALSE(pusher.Read().has_value());
  EXPECT_EQ(pusher.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PsServerTest, EveryPushOfALongStreamIsAnswered) {
  constexpr uint64_t kPushes = 5000;
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/0, /*total_steps=*/kPushes);
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

struct BadPush {
  const char* name;
  void (*spoil)(PushRequest* push);
  absl::StatusCode code;
  const char* message;
};

class BadPushTest : public PsServerTest, public ::testing::WithParamInterface<BadPush> {};

TEST_P(BadPushTest, IsRefusedAndChangesNothing) {
  const ShardSpec spec = MakeSpec({4, 6}, /*replicas=*/2, /*total_steps=*/100);
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

}  // namespace
}  // namespace millrace::ps
