// Clients that pull and do not read, or hardly. They kept the state that they pulled for as long as
// they liked, and then a block of it.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/memory_limit.h"
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
using ::millrace::testing::Pulled;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::testing::HasSubstr;

constexpr size_t kBlocks = 96;  // More than is sent ahead to a client that does not read.

// A server on simulated time, with one shard.
class SlowReaderTest : public ::testing::Test {
 protected:
  explicit SlowReaderTest(size_t blocks = kBlocks, uint64_t memory_limit = MemoryLimit())
      : spec_(MakeSpec({blocks * kBlockElements}, /*replicas=*/1)) {
    PsServerOptions options;
    options.memory_limit = memory_limit;
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

  // A whole step, of which a message has one block.
  void PushStep(uint64_t step, Pusher& pusher) {
    const uint64_t elements = spec_.slices(0).slice().length();
    for (uint64_t begin = 0; begin < elements; begin += kBlockElements) {
      pusher.Write(MakePush(spec_, step, step + 1, {{0, begin, kBlockElements}}, 1));
    }
    EXPECT_EQ(pusher.Read()->outcome(), PushResponse::APPLIED);
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
  for (size_t i = 0; i < 48; ++i) Pass(absl::Minutes(1), other);
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
  // The newest version and the one before stay.
  for (uint64_t step = 0; step < 3; ++step) PushStep(step, pusher);
  const uint64_t without_it = MemoryBytes() - kBlocks * kBlockElements * sizeof(float);
  Puller other(data_.get(), spec_);
  for (size_t i = 0; i < 60 && MemoryBytes() > without_it; ++i) Pass(absl::Minutes(1), other);
  EXPECT_EQ(MemoryBytes(), without_it);
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
  // Each message takes it 40 s, all of them would take more than the 41 minutes that they may,
  // though what was sent ahead is read at once in the end.
  PullResponse response;
  size_t messages = 0;
  do {
    ASSERT_TRUE(slow.Read(&response));
    ++messages;
    if (messages < kBlocks * 3 / 4) Pass(absl::Seconds(40), other);
  } while (!response.last());
  EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(response.message(), HasSubstr("in time"));
  EXPECT_LT(messages, kBlocks);
  EXPECT_EQ(slow.Pull().elements, kBlocks * kBlockElements) << "the stream goes on";
}

constexpr size_t kFewBlocks = 40;

// With room for what the shard needs, and for two old states besides.
class ShortMemoryTest : public SlowReaderTest {
 protected:
  ShortMemoryTest()
      : SlowReaderTest(kFewBlocks, 10 * kFewBlocks * kBlockElements * sizeof(float)) {}
};

TEST_F(ShortMemoryTest, OldestStateIsTakenFromItsSlowReader) {
  Pusher pusher(data_.get());
  std::vector<std::unique_ptr<Puller>> readers;
  PullResponse response;
  for (uint64_t step = 0; step < 3; ++step) {
    readers.push_back(std::make_unique<Puller>(data_.get(), spec_));
    readers.back()->Send(MakePull(spec_));
    ASSERT_TRUE(readers.back()->Read(&response));
    PushStep(step, pusher);
  }
  PushStep(3, pusher);  // Those of three readers are old now.
  size_t messages = 1;
  while (readers[0]->Read(&response) && !response.last()) ++messages;
  EXPECT_LT(messages, kFewBlocks);
  EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_THAT(response.message(), HasSubstr("the server's memory is short"));
  EXPECT_EQ(readers[0]->Pull().version, 4) << "the stream goes on";
  for (const size_t later : {1, 2}) {
    const Pulled rest = readers[later]->Receive();
    EXPECT_EQ(rest.version, later);
    EXPECT_EQ(rest.elements, (kFewBlocks - 1) * kBlockElements);
  }
}

}  // namespace
}  // namespace millrace::ps
