// Shards from their making to their end, as the coordinator asks for them over the wire.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/net/raw_call.h"
#include "common/wire/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server_fixture.h"
#include "ps/ps_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakePush;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::Puller;
using ::millrace::testing::Pusher;
using ::millrace::testing::WholeShard;
using ::testing::HasSubstr;

TEST_F(PsServerTest, NewGenerationFencesPushesAndPulls) {
  const ShardSpec spec = MakeSpec({4}, /*replicas=*/1);
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

TEST_F(PsServerTest, DroppedShardIsGoneForGood) {
  const ShardSpec spec = MakeSpec({4});
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

// It ended the server.
TEST_F(PsServerTest, ShardsWhoseJobsCannotBeCalledSoAreNotDropped) {
  ShardSpec spec = MakeSpec({4});
  for (const size_t size : {size_t{0}, size_t{201}, size_t{1} << 16, size_t{1} << 20}) {
    spec.set_job_id(std::string(size, 'a'));
    const grpc::Status status = Drop(spec);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << size;
    EXPECT_THAT(status.error_message(), HasSubstr("job_id: has"));
  }
}

// A stranger's greatest number would have kept the coordinator from ever setting a greater one.
TEST_F(PsServerTest, GenerationsAreBelowTwoToTheThirtyTwo) {
  const ShardSpec spec = MakeSpec({4});
  EXPECT_EQ(Create(spec, uint64_t{1} << 32).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Create(spec).ok());
  EXPECT_EQ(SetGeneration(spec, ~uint64_t{0}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Drop(spec, uint64_t{1} << 32).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(SetGeneration(spec, (uint64_t{1} << 32) - 1).ok());
}

TEST_F(PsServerTest, CreatingAShardAgainIsNoErrorUnlessTheSpecDiffers) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(Create(spec).ok());
  ASSERT_TRUE(Create(spec, 3).ok());
  EXPECT_EQ(Get(spec).generation(), 3);
  EXPECT_EQ(Create(MakeSpec({5})).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

// It was made on whoever had the address of the server that it was placed on.
TEST_F(PsServerTest, ShardIsMadeOnlyByTheServerThatItIsPlacedOn) {
  const ShardSpec spec = MakeSpec({4});
  const grpc::Status refused = Create(spec, 1, "of another one");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("directory_id: of another one; the server at this address has " +
                        server_->directory_id()));
  EXPECT_TRUE(Create(spec, 1, server_->directory_id()).ok());
}

// It was dropped by a call that was for what another directory had of it, at the same address: all
// steps since the job's last checkpoint were lost.
TEST_F(PsServerTest, CallForAnotherDirectoryNeitherDropsAShardNorOpensIt) {
  const ShardSpec spec = MakeSpec({4});
  ASSERT_TRUE(Create(spec, 1).ok());
  EXPECT_EQ(Drop(spec, 2, "of another one").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(SetGeneration(spec, 2, "of another one").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Get(spec).generation(), 1);
  EXPECT_TRUE(SetGeneration(spec, 2, server_->directory_id()).ok());
  EXPECT_TRUE(Drop(spec, 2, server_->directory_id()).ok());
}

TEST_F(PsServerTest, FlushCutReturnsWhenTheVersionIsInTheDatabase) {
  const ShardSpec spec = MakeSpec({4, kBlockElements});
  ASSERT_TRUE(Create(spec).ok());
  Pusher pusher(data_.get());
  pusher.Push(MakePush(spec, 0, 1, WholeShard(spec), 1));
  ShardStatus status;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Flush(spec, &status).ok());
    EXPECT_EQ(status.flushed_version(), 1);
  }
}

// Such calls once ended with INTERNAL and no text.
TEST_F(PsServerTest, BytesThatAreNoRequestAreRefusedByName) {
  for (const char* method :
       {"CreateShard", "GetShard", "SetGeneration", "PlanCuts", "StepBack", "PinCut", "UnpinCut",
        "FlushCut", "RetireShard", "DropShard", "CopyShard", "ReadShard"}) {
    const absl::Status status = CallRaw(
        server_->address(), std::string("/millrace.ParameterServerAdmin/") + method, "\xff\xff");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << method;
    const std::string name = std::string("millrace.") + method + "Request";
    EXPECT_THAT(std::string(status.message()), HasSubstr("its bytes are no " + name));
  }
}

TEST_F(PsServerTest, WrongSpecsAreRefusedByTheFieldsPath) {
  ShardSpec spec = MakeSpec({});
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices"));
  spec = MakeSpec({4, 0});
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices[1].slice.length"));
  spec = MakeSpec({~uint64_t{0}, ~uint64_t{0}});
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices[0].slice.length"));
  spec = MakeSpec({4});
  spec.set_total_steps(0);
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.total_steps"));
  spec = MakeSpec({4});
  spec.clear_job_id();
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.job_id"));
  spec = MakeSpec({4});
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(2);
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("momentum"));
  spec = MakeSpec({4});
  spec.mutable_slices(0)->clear_initial_value();
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.slices[0].initial_value"));
  spec = MakeSpec({4});
  spec.mutable_cut_period();
  EXPECT_THAT(Create(spec).error_message(), HasSubstr("spec.cut_period"));
}

TEST_F(PsServerTest, ShardThatNoMachineCanHoldIsRefused) {
  EXPECT_EQ(Create(MakeSpec({uint64_t{1} << 38})).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace millrace::ps
