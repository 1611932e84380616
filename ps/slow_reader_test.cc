// Clients that pull and do not read, or hardly. They kept the state that they pulled for as long as
// they liked, and then a block of it.
#include <memory>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/net/channel.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/ps_server.h"
#include "ps/ps_test_util.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakePull;
using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::testing::HasSubstr;

constexpr size_t kBlocks = 96;  // More than is sent ahead to a client that does not read.

// A server on simulated time, with one shard.
class SlowReaderTest : public ::testing::Test {
 protected:
  SlowReaderTest() : spec_(MakeSpec({kBlocks * kBlockElements}, /*replicas=*/1)) {
    PsServerOptions options;
    options.data_dir = TestDirectory("data");
    options.clock = &clock_;
    server_ = *PsServer::Start(options);
    channel_ = CreateChannel(server_->address());
    data_ = ParameterServer::NewStub(channel_);
    CreateShardRequest request;
    *request.mutable_spec() = spec_;
    request.set_generation(1);
    grpc::ClientContext context;
    ShardStatus status;
    EXPECT_TRUE(
        ParameterServerAdmin::NewStub(channel_)->CreateShard(&context, request, &status).ok());
  }

  // Moves the clock on. Returns when the server has done what was to be done until then, since a
  // pull that waits for no time at all stands behind all earlier deadlines.
  void Pass(absl::Duration duration, Puller& reader) {
    clock_.Advance(duration);
    PullRequest pull = MakePull(spec_);
    pull.set_version(1000);  // Which does not come.
    pull.mutable_timeout();
    reader.Send(pull);
    PullResponse response;
    ASSERT_TRUE(reader.Read(&response));
    EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  }

  uint64_t MemoryBytes() {
    GetShardRequest request;
    request.set_job_id(spec_.job_id());
    request.set_shard(spec_.shard());
    grpc::ClientContext context;
    ShardStatus status;
    EXPECT_TRUE(ParameterServerAdmin::NewStub(channel_)->GetShard(&context, request, &status).ok());
    return status.memory_bytes();
  }

  SimulatedClock clock_;
  const ShardSpec spec_;
  std::unique_ptr<PsServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterServer::Stub> data_;
};

TEST_F(SlowReaderTest, ClientThatDoesNotReadLosesItsPull) {
  Puller idle(data_.get(), spec_);
  idle.Send(MakePull(spec_));
  Puller other(data_.get(), spec_);
  for (size_t i = 0; i < 48; ++i) Pass(absl::Seconds(25), other);
  // Where the error still had room among what was sent ahead, the stream is left.
  PullResponse response;
  size_t messages = 0;
  while (idle.Read(&response) && !response.last()) ++messages;
  EXPECT_LT(messages, kBlocks - 1);
  if (response.last()) {
    EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  } else {
    EXPECT_EQ(idle.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(other.Pull().elements, kBlocks * kBlockElements);
}

TEST_F(SlowReaderTest, ClientThatDoesNotReadKeepsNoOldState) {
  Puller idle(data_.get(), spec_);
  idle.Send(MakePull(spec_));
  PullResponse response;
  ASSERT_TRUE(idle.Read(&response));
  Pusher pusher(data_.get());
  for (uint64_t step = 0; step < 3; ++step) {  // The newest version and the one before stay.
    for (size_t block = 0; block < kBlocks; ++block) {
      pusher.Write(
          MakePush(spec_, step, step + 1, {{0, block * kBlockElements, kBlockElements}}, 1));
    }
    EXPECT_EQ(pusher.Read()->outcome(), PushResponse::APPLIED);
  }
  const uint64_t before = MemoryBytes();
  Puller other(data_.get(), spec_);
  for (size_t i = 0; i < 13; ++i) Pass(absl::Seconds(25), other);
  EXPECT_EQ(MemoryBytes(), before - kBlocks * kBlockElements * sizeof(float));
}

// It had a second for each MiB: over a network that gave each part of a shard a tenth of that, no
// client could get a large shard.
TEST_F(SlowReaderTest, ClientThatReadsSlowlyAndSteadilyGetsAll) {
  Puller slow(data_.get(), spec_);
  slow.Send(MakePull(spec_));
  Puller other(data_.get(), spec_);
  PullResponse response;
  do {
    ASSERT_TRUE(slow.Read(&response));
    EXPECT_EQ(response.code(), 0) << response.message();
    Pass(absl::Seconds(16), other);
  } while (!response.last());
}

TEST_F(SlowReaderTest, ClientThatReadsALittleNowAndThenLosesItsPull) {
  Puller slow(data_.get(), spec_);
  slow.Send(MakePull(spec_));
  Puller other(data_.get(), spec_);
  // Each message takes it half a minute, all of them would take more than the half-hour that they
  // may, though what was sent ahead is read at once in the end.
  PullResponse response;
  size_t messages = 0;
  do {
    ASSERT_TRUE(slow.Read(&response));
    ++messages;
    if (messages < kBlocks * 3 / 4) Pass(absl::Seconds(30), other);
  } while (!response.last());
  EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(response.message(), HasSubstr("in time"));
  EXPECT_LT(messages, kBlocks);
  EXPECT_EQ(slow.Pull().elements, kBlocks * kBlockElements) << "the stream goes on";
}

}  // namespace
}  // namespace millrace::ps
