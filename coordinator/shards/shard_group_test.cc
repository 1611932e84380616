#include "coordinator/shards/shard_group.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "coordinator/membership/silent_link.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kGroups = 3000;

class ShardGroupTest : public testing::Test {
 protected:
  // A job with a shard in a directory that is served at the address.
  JobRecord JobAt(const std::string& address) {
    RegisterPs ps;
    ps.set_name("ps-0");
    ps.set_directory_id("d0");
    ps.set_address(address);
    EXPECT_TRUE(registry_.AddPs(ps, std::make_shared<SilentLink>()).ok());
    JobRecord record;
    record.set_job_id("j-1");
    record.set_state(RUNNING);
    ShardPlacement& shard = *record.add_shards();
    shard.set_directory_id("d0");
    shard.set_server("ps-0");
    shard.set_address(address);
    return record;
  }

  SimulatedClock clock_;
  MemberRegistry registry_{absl::Hours(1), &clock_};
};

// gRPC's threads of callbacks end with the last channel, and must not be the ones that let go of
// it: they would wait for themselves. It was up to chance which thread let go of it when a job
// ended, and with it its group, just after a call; gRPC aborted the process for it.
TEST_F(ShardGroupTest, GroupGoesRightAfterACallOverAndOverAgain) {
  const JobRecord record = JobAt("127.0.0.1:1");  // Nobody listens there.
  for (int i = 0; i < kGroups; ++i) {
    ShardGroup group(record, &registry_);
    ASSERT_EQ(group.Locate(), "");
    ASSERT_TRUE(absl::IsUnavailable(group.Drop(/*generation=*/1)));
  }
}

// Gives this answer, whatever it is asked about.
class ConfusedServer : public ParameterServerAdmin::Service {
 public:
  explicit ConfusedServer(const ShardStatus& answer) : answer_(answer) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  const std::string& address() const { return address_; }

 protected:
  grpc::Status AnswerOf(const std::string& directory_id, ShardStatus* response) {
    if (directory_id != "d0") {
      return {grpc::StatusCode::UNAVAILABLE, "directory_id: of another server"};
    }
    *response = answer_;
    return grpc::Status::OK;
  }

 private:
  grpc::Status GetShard(grpc::ServerContext* /*context*/, const GetShardRequest* request,
                        ShardStatus* response) override {
    return AnswerOf(request->directory_id(), response);
  }
  grpc::Status CreateShard(grpc::ServerContext* /*context*/, const CreateShardRequest* request,
                           ShardStatus* response) override {
    return AnswerOf(request->directory_id(), response);
  }

  const ShardStatus answer_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

ShardStatus AnswerAbout(const std::string& job_id, uint32_t shard) {
  ShardStatus answer;
  answer.set_job_id(job_id);
  answer.set_shard(shard);
  return answer;
}

// It was looked up among the job's shards, and ended the coordinator.
TEST_F(ShardGroupTest, AnswerAboutAnotherShardOrJobIsAnError) {
  for (const ShardStatus& answer :
       {AnswerAbout("j-1", 77), AnswerAbout("j-2", 0), AnswerAbout("", 0)}) {
    const ConfusedServer server(answer);
    ShardGroup group(JobAt(server.address()), &registry_);
    ASSERT_EQ(group.Locate(), "");
    const absl::Status status = group.Get().status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("it was asked about job 'j-1', and answers about shard ",
                                       answer.shard(), " of job '", answer.job_id(), "'")));
    EXPECT_THAT(std::string(status.message()), HasSubstr("ps-0"));
  }
}

// A server may be back at its address with another directory.
TEST_F(ShardGroupTest, ShardIsMadeAndLookedAtInItsOwnDirectory) {
  const ConfusedServer server(AnswerAbout("j-1", 0));
  ShardGroup group(JobAt(server.address()), &registry_);
  ASSERT_EQ(group.Locate(), "");
  const auto made = group.Bring(/*generation=*/1, /*all=*/true);
  EXPECT_TRUE(made.ok()) << made.status();
  const auto there = group.Get();
  EXPECT_TRUE(there.ok()) << there.status();
}

// The same, which can be opened and dropped.
class WholeServer final : public ConfusedServer {
 public:
  using ConfusedServer::ConfusedServer;

 private:
  grpc::Status SetGeneration(grpc::ServerContext* /*context*/, const SetGenerationRequest* request,
                             ShardStatus* response) override {
    return AnswerOf(request->directory_id(), response);
  }
  grpc::Status DropShard(grpc::ServerContext* /*context*/, const DropShardRequest* request,
                         DropShardResponse* /*response*/) override {
    ShardStatus ignored;
    return AnswerOf(request->directory_id(), &ignored);
  }
};

// What is there otherwise may be needed, or lack steps.
TEST_F(ShardGroupTest, ShardIsOpenedAndDroppedInItsOwnDirectory) {
  const WholeServer server(AnswerAbout("j-1", 0));
  JobRecord record = JobAt(server.address());
  ShardGroup group(record, &registry_);
  ASSERT_EQ(group.Locate(), "");
  EXPECT_TRUE(group.Bring(/*generation=*/1, /*all=*/false).ok());
  EXPECT_TRUE(group.SetGeneration(/*generation=*/2).ok());
  EXPECT_TRUE(group.Fence(/*generation=*/3).ok());
  EXPECT_TRUE(group.Unmake(/*generation=*/3, /*all=*/true).ok());
  EXPECT_TRUE(group.Drop(/*generation=*/3).ok());
  record.mutable_shards(0)->set_making(ShardPlacement::TO_BE_DROPPED);
  ShardGroup again(record, &registry_);
  ASSERT_EQ(again.Locate(), "");
  EXPECT_TRUE(again.DropFirst(/*generation=*/4).ok());
}

// Its end was not waited for.
TEST_F(ShardGroupTest, WhatServersThatAreThereDoNotDoIsAnError) {
  const ConfusedServer server(AnswerAbout("j-1", 0));
  ShardGroup group(JobAt(server.address()), &registry_);
  ASSERT_EQ(group.Locate(), "");
  EXPECT_FALSE(group.Fence(/*generation=*/2).ok());
  EXPECT_FALSE(group.UnpinCut(/*generation=*/2, "checkpoint-1").ok());
}

TEST_F(ShardGroupTest, ShardThatWasNeverLocatedIsNotThere) {
  ShardGroup group(JobAt("127.0.0.1:1"), &registry_);
  const absl::Status status = group.Get().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is not there"));
}

// Nobody looked at the answers before something else happened.
TEST_F(ShardGroupTest, EndOfAPollIsTold) {
  Gate told;
  const ConfusedServer server(AnswerAbout("j-1", 0));
  ShardGroup group(JobAt(server.address()), &registry_);
  ASSERT_EQ(group.Locate(), "");
  group.StartPoll(absl::nullopt, [&told] { told.Open(); });
  told.Pass();
  const auto poll = group.TakePoll();
  ASSERT_TRUE(poll);
  EXPECT_TRUE(poll->errors[0].ok()) << poll->errors[0];
}

// Everybody counted up to it.
TEST_F(ShardGroupTest, AnswerWithAStepThatTheJobHasNotGotIsAnError) {
  const auto ask = [this](const ShardStatus& answer) {
    const ConfusedServer server(answer);
    JobRecord record = JobAt(server.address());
    record.set_total_steps(60);
    ShardGroup group(record, &registry_);
    EXPECT_EQ(group.Locate(), "");
    return std::string(group.Get().status().message());
  };
  ShardStatus last = AnswerAbout("j-1", 0);
  last.mutable_applied()->set_watermark(60);
  last.mutable_held()->add_above(59);
  EXPECT_EQ(ask(last), "");
  ShardStatus far = AnswerAbout("j-1", 0);
  far.mutable_applied()->add_above(59);
  far.mutable_applied()->add_above(uint64_t{1} << 60);
  EXPECT_THAT(ask(far), AllOf(HasSubstr("ps-0"), HasSubstr("GetShard of shard 0: it says that it "
                                                           "has step 1152921504606846976, and the "
                                                           "job has steps 0 to 59")));
  ShardStatus done = AnswerAbout("j-1", 0);
  done.mutable_applied()->set_watermark(61);
  EXPECT_THAT(ask(done), HasSubstr("it has step 60, and"));
  ShardStatus held = AnswerAbout("j-1", 0);
  held.mutable_held()->add_above(60);
  EXPECT_THAT(ask(held), HasSubstr("it has step 60, and"));
}

}  // namespace
}  // namespace millrace::coordinator
