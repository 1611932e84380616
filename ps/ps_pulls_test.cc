// What pulls bring over the wire, and how they wait.
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/proto_duration.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server_fixture.h"
#include "ps/ps_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::EncodedAs;
using ::millrace::testing::MakePull;
using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Pulled;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::WholeShard;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(PsServerTest, VariablesAreFloatsHoweverTheyTravel) {
  ShardSpec spec = MakeSpec({3, kBlockElements + 5, 2});
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

TEST_F(PsServerTest, ValueThatDoesNotFitTheEncodingEndsThePull) {
  const ShardSpec spec = MakeSpec({3, 5});
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

TEST_F(PsServerTest, PartsOfAPullMakeUpTheShard) {
  const ShardSpec spec = MakeSpec({3 * kBlockElements + 1, 2, 5});
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

TEST_F(PsServerTest, PullOfTooManyRowsIsRefused) {
  const ShardSpec spec = MakeSpec({kMaxRows, kMaxRows});
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  for (const uint32_t slice : {0, 1}) {
    WantedRows* wanted = request.add_rows();
    wanted->set_slice(slice);
    wanted->set_width(2);
    for (uint64_t row = 0; row < kMaxRows / 2; ++row) wanted->add_rows(row);
  }
  Pulled pulled = puller.Pull(request);
  EXPECT_EQ(pulled.code, 0) << pulled.message;
  EXPECT_EQ(pulled.elements, 2 * kMaxRows);
  EXPECT_EQ(pulled.messages, 2);
  request.mutable_rows(1)->set_width(1);
  request.mutable_rows(1)->add_rows(kMaxRows / 2);
  pulled = puller.Pull(request);
  EXPECT_EQ(pulled.code, static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(pulled.message, HasSubstr("rows[1]: more than 262144 rows in all"));
  request.clear_rows();
  WantedRows* wanted = request.add_rows();
  wanted->set_width(1);
  wanted->mutable_rows()->Resize(3 * kMaxRows, ~uint64_t{0});
  puller.Send(request);
  const grpc::Status end = puller.Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(end.error_message(), HasSubstr("PullRequest.rows: far more than 262144 rows"));
}

TEST_F(PsServerTest, PullOfAFutureVersionWaitsForIt) {
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/2);
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
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/3);
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
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_version(1);
  *request.mutable_timeout() = ToProto(absl::Hours(1));
  puller.Send(request);
  puller.Cancel();
  EXPECT_EQ(puller.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(PsServerTest, HalfClosedPullStreamBringsWhatWasAskedForAndEnds) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  puller.Send(MakePull(spec));
  puller.WritesDone();
  EXPECT_EQ(puller.Receive().elements, 4);
  PullResponse more;
  EXPECT_FALSE(puller.Read(&more));
  EXPECT_TRUE(puller.Finish().ok());
}

TEST_F(PsServerTest, FencingEndsWaitingPulls) {
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/1);
  ASSERT_TRUE(Create(spec).ok());
  Puller puller(data_.get(), spec);
  PullRequest request = MakePull(spec);
  request.set_version(1);
  puller.Send(request);
  ASSERT_TRUE(SetGeneration(spec, 2).ok());
  EXPECT_EQ(puller.Receive().code, static_cast<int>(absl::StatusCode::kFailedPrecondition));
}

TEST_F(PsServerTest, PinnedCutStaysAsItWas) {
  const ShardSpec spec = MakeSpec({4});
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

TEST_F(PsServerTest, BadPullsAreRefused) {
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/1);
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
  for (const auto& [seconds, nanos] : {std::pair(-1, 0), std::pair(0, 1'000'000'000)}) {
    request = MakePull(spec);
    request.set_version(4);
    request.mutable_timeout()->set_seconds(seconds);
    request.mutable_timeout()->set_nanos(nanos);
    EXPECT_THAT(puller.Pull(request).message, HasSubstr("must be a duration of 0 s or more"));
  }
  request = MakePull(spec);
  request.set_version(1);
  EXPECT_EQ(puller.Pull(request).code, static_cast<int>(absl::StatusCode::kAborted));
  request = MakePull(spec);
  request.set_generation(9);
  EXPECT_EQ(puller.Pull(request).code, static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(puller.Pull().version, 3);
}

}  // namespace
}  // namespace millrace::ps
