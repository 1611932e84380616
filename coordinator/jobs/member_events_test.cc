#include "coordinator/jobs/member_events.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/applied_set.h"
#include "coordinator/jobs/job_table_fixture.h"
#include "coordinator/testing/fake_ps.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::Contains;

class ListeningLink final : public MemberLink {
 public:
  void Send(const CoordinatorMessage& message) override { heard.push_back(message.kind_case()); }
  void Close(const absl::Status& /*status*/) override {}

  std::vector<CoordinatorMessage::KindCase> heard;
};

class MemberEventsTest : public JobTableFixture {
 protected:
  MemberEventsTest() { registry_.SetObserver(&events_); }

  uint64_t AddWorker() {
    RegisterWorker worker;
    worker.set_name("worker-0");
    worker.set_lease_slots(1);
    return registry_.AddWorker(worker, link_).value();
  }

  uint64_t AddPs(const FakePs& server, const std::vector<ShardStatus>& shards = {}) {
    RegisterPs ps;
    ps.set_name("ps-0");
    ps.set_directory_id(server.directory_id());
    ps.set_address(server.address());
    for (const ShardStatus& shard : shards) *ps.add_shards() = shard;
    return registry_.AddPs(ps, link_).value();
  }

  const std::shared_ptr<ListeningLink> link_ = std::make_shared<ListeningLink>();
  MemberEvents events_{environment_, &table_};
};

TEST_F(MemberEventsTest, WorkerThatComesLearnsTheRoutesOfJobs) {
  SetRoute route;
  route.set_job_id("j-1");
  route.mutable_routing()->set_generation(1);
  dispatcher_.Start({.total_steps = 1}, route, AppliedSet(), /*barrier=*/1);
  AddWorker();
  EXPECT_THAT(link_->heard, Contains(CoordinatorMessage::kSetRoute));
}

TEST_F(MemberEventsTest, WhatAWorkerSaysOfAJobThatHasGoneIsIgnored) {
  const uint64_t worker = AddWorker();
  MemberMessage late;
  late.mutable_step_result()->set_job_id("j-1");
  EXPECT_TRUE(registry_.Receive(worker, late).ok());
  late.mutable_lease_returned()->set_job_id("j-1");
  EXPECT_TRUE(registry_.Receive(worker, late).ok());
  late.mutable_evaluation_result()->set_job_id("j-1");
  EXPECT_TRUE(registry_.Receive(worker, late).ok());
  late.mutable_job_prepared()->set_job_id("j-1");
  EXPECT_TRUE(registry_.Receive(worker, late).ok());
}

TEST_F(MemberEventsTest, ServerThatNoJobNeedsMayLeaveAtOnce) {
  FakePs server("ps-0");
  server.Serve();
  const uint64_t ps = AddPs(server);
  MemberMessage leaving;
  leaving.mutable_draining();
  ASSERT_TRUE(registry_.Receive(ps, leaving).ok());
  EXPECT_THAT(link_->heard, Contains(CoordinatorMessage::kMayLeave));
}

TEST_F(MemberEventsTest, ShardThatItsJobDoesNotPlaceThereIsDroppedAndAStrangersStays) {
  JobRecord record = PendingJob();
  record.set_state(RUNNING);
  record.set_generation(5);
  record.add_shards()->set_directory_id("another server's");
  ASSERT_TRUE(journal_->Write(record).ok());
  ASSERT_TRUE(table_.Load().ok());
  FakePs server("ps-0");
  server.Serve();
  std::vector<ShardStatus> shards;
  for (const std::string job : {"j-1", "of another journal"}) {
    CreateShardRequest request;
    request.mutable_spec()->set_job_id(job);
    request.set_generation(4);
    ASSERT_TRUE(server.CreateShard(nullptr, &request, &shards.emplace_back()).ok());
  }
  AddPs(server, shards);
  server.AwaitDropped("j-1");
  EXPECT_EQ(server.Shards("of another journal").size(), 1u);
}

// A record and a call were made for each of them, one after the other, before anything else: no
// memory was freed for hours.
TEST_F(MemberEventsTest, StraysByTheThousandDoNotKeepAnotherJobFromBeingRetired) {
  constexpr uint32_t kStrays = 20'000;
  Gate some_dropped;
  std::atomic<uint32_t> drops{0};
  std::atomic<bool> is_retired{false};
  FakePs server("ps-0");
  server.Serve();
  JobRecord has_strays = PendingJob();
  has_strays.set_state(RUNNING);
  has_strays.set_generation(5);
  has_strays.add_shards()->set_directory_id("another server's");
  ASSERT_TRUE(journal_->Write(has_strays).ok());
  JobRecord ended = has_strays;
  ended.set_number(2);
  ended.set_job_id("j-2");
  ended.set_state(SUCCEEDED);
  ended.mutable_started();
  ended.mutable_shards(0)->set_directory_id(server.directory_id());
  ASSERT_TRUE(journal_->Write(ended).ok());
  ASSERT_TRUE(table_.Load().ok());

  std::vector<ShardStatus> shards(kStrays);
  for (uint32_t shard = 0; shard < kStrays; ++shard) {
    shards[shard].set_job_id("j-1");
    shards[shard].set_shard(shard);
  }
  server.set_on_drop([&] {
    const uint32_t drop = ++drops;
    if (drop == 1) {  // Not before: a sweep may come before the strays.
      CreateShardRequest request;
      request.mutable_spec()->set_job_id("j-2");
      request.set_generation(5);
      ShardStatus status;
      EXPECT_TRUE(server.CreateShard(nullptr, &request, &status).ok());
    }
    if (drop == kStrays / 10) {
      is_retired = server.Shards("j-2")[0].retired();
      some_dropped.Open();
    }
    return grpc::Status::OK;
  });
  AddPs(server, shards);
  some_dropped.Pass();
  EXPECT_TRUE(is_retired);
  table_.Stop();
}

}  // namespace
}  // namespace millrace::coordinator
