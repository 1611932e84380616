// A new job whose one shard is made, for tests of what attaching consists of; the whole of it is in
// attacher_test.cc.
#ifndef MILLRACE_COORDINATOR_RUN_ONE_SHARD_FIXTURE_H_
#define MILLRACE_COORDINATOR_RUN_ONE_SHARD_FIXTURE_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/clock.h"
#include "coordinator/job/job.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/membership/member_registry.h"
#include "coordinator/membership/silent_link.h"
#include "coordinator/run/attach_tries.h"
#include "coordinator/run/reporter.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/shard_group.h"
#include "coordinator/testing/fake_ps.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {

// The job and its shard are at generation 4.
class OneShardFixture : public testing::Test {
 protected:
  OneShardFixture() {
    server_.Serve();
    Join(server_);
    JobRecord record = PendingJob();
    record.set_generation(4);
    record.add_shards()->set_directory_id(server_.directory_id());
    record.mutable_shards(0)->set_server("ps-0");
    environment_.registry = &registry_;
    environment_.clock = &clock_;
    job_ = std::make_unique<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
    reporter_ = std::make_unique<Reporter>(job_.get(), &environment_, &inbox_);
    tries_ = std::make_unique<AttachTries>(job_.get(), &inbox_, reporter_.get());
    shards_ = std::make_unique<ShardGroup>(record, &registry_);
    EXPECT_EQ(shards_->Locate(), "");
    SetShard(4);
  }

  void Join(const FakePs& server) {
    RegisterPs ps;
    ps.set_name(server.name());
    ps.set_directory_id(server.directory_id());
    ps.set_address(server.address());
    EXPECT_TRUE(registry_.AddPs(ps, std::make_shared<SilentLink>()).ok());
  }

  // Makes it, or gives it this generation.
  void SetShard(uint64_t generation) {
    CreateShardRequest request;
    request.mutable_spec()->set_job_id(job_->id());
    request.set_generation(generation);
    ShardStatus status;
    EXPECT_TRUE(server_.CreateShard(nullptr, &request, &status).ok());
  }

  SimulatedClock clock_;
  MemberRegistry registry_{absl::Hours(1), &clock_};
  FakePs server_{"ps-0"};
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  RunnerEnvironment environment_;
  RunnerInbox inbox_{&clock_};
  std::unique_ptr<Job> job_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<AttachTries> tries_;
  std::unique_ptr<ShardGroup> shards_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_ONE_SHARD_FIXTURE_H_
