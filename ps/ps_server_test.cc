#include "ps/ps_server.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server_fixture.h"
#include "ps/ps_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakePull;
using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::WholeShard;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(PsServerTest, CleanStopLosesNothing) {
  const ShardSpec asynchronous = MakeSpec({4, kBlockElements + 1});
  ShardSpec synchronous = MakeSpec({4}, /*replicas=*/2);
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
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/1);
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

TEST_F(PsServerTest, SecondServerOnTheDirectoryIsRefused) {
  PsServerOptions options;
  options.data_dir = data_dir_;
  const absl::StatusOr<std::unique_ptr<PsServer>> second = PsServer::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(data_dir_));
}

}  // namespace
}  // namespace millrace::ps
