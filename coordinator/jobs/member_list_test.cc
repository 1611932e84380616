#include "coordinator/jobs/member_list.h"

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/proto_duration.h"
#include "common/version.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/membership/silent_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MemberListTest : public testing::Test {
 protected:
  uint64_t AddPs(const std::string& name, const std::string& directory = "") {
    RegisterPs ps;
    ps.set_name(name);
    ps.set_directory_id(directory.empty() ? "directory-of-" + name : directory);
    ps.set_address(name + ":7");
    ps.set_version("0.1.0 (build 1)");
    return registry_.AddPs(ps, std::make_shared<SilentLink>()).value();
  }

  uint64_t AddWorker(const std::string& name) {
    RegisterWorker worker;
    worker.set_name(name);
    worker.set_lease_slots(1);
    worker.set_device("cuda:0 (NVIDIA H200)");
    worker.set_version("0.2.0 (build 2)");
    return registry_.AddWorker(worker, std::make_shared<SilentLink>()).value();
  }

  struct Placed {
    std::string ps;
    std::vector<uint64_t> slices;  // Elements of each.
  };
  void AddJob(const std::string& id, JobState state, const std::vector<Placed>& shards) {
    JobRecord record = PendingJob();
    record.set_number(jobs_.size() + 1);
    record.set_job_id(id);
    record.set_state(state);
    for (const auto& [ps, slices] : shards) {
      ShardPlacement& shard = *record.add_shards();
      shard.set_directory_id("directory-of-" + ps);
      shard.set_server(ps);
      shard.set_address(ps + ":7");
      for (const uint64_t length : slices) shard.add_slices()->set_length(length);
    }
    jobs_.push_back(std::make_shared<Job>(record, /*last_event=*/0, journal_.get(), &clock_));
  }

  ListMembersResponse List() {
    RunnerEnvironment environment;
    environment.registry = &registry_;
    environment.clock = &clock_;
    environment.evacuated = &evacuated_;
    return ListMembers(environment, jobs_);
  }

  SimulatedClock clock_;
  MemberRegistry registry_{absl::Seconds(2), &clock_};
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  EvacuatedServers evacuated_{journal_.get()};
  std::vector<std::shared_ptr<Job>> jobs_;
};

TEST_F(MemberListTest, NobodyIsThere) {
  clock_.Advance(absl::Minutes(1));
  const ListMembersResponse list = List();
  EXPECT_THAT(list.ps_servers(), IsEmpty());
  EXPECT_THAT(list.workers(), IsEmpty());
  EXPECT_THAT(list.departed(), IsEmpty());
  EXPECT_EQ(list.coordinator_version(), Version());
  EXPECT_EQ(FromProto(list.coordinator_since()), absl::Minutes(1));
  EXPECT_EQ(FromProto(list.heartbeat_period()), absl::Seconds(2));
}

TEST_F(MemberListTest, ServersTellWhatIsPlacedOnThem) {
  AddPs("ps-1");
  clock_.Advance(absl::Seconds(3));
  const uint64_t first = AddPs("ps-0");
  AddJob("j-1", RUNNING, {{"ps-0", {2, 3}}, {"ps-1", {7}}, {"ps-0", {11}}});
  AddJob("j-2", SUCCEEDED, {{"ps-0", {100}}});
  AddJob("j-3", SUCCEEDED, {{"ps-0", {5000}}, {"ps-1", {5000}}});
  ASSERT_TRUE(jobs_[2]
                  ->Update([](JobRecord& record) {
                    for (ShardPlacement& shard : *record.mutable_shards()) shard.set_dropped(true);
                  })
                  .ok());
  MemberMessage stops;
  stops.mutable_draining();
  ASSERT_TRUE(registry_.Receive(first, stops).ok());
  const ListMembersResponse list = List();
  ASSERT_THAT(list.ps_servers(), SizeIs(2));
  const MemberReport& ps_0 = list.ps_servers(0);
  EXPECT_EQ(ps_0.name(), "ps-0");
  EXPECT_EQ(ps_0.address(), "ps-0:7");
  EXPECT_EQ(ps_0.directory_id(), "directory-of-ps-0");
  EXPECT_EQ(ps_0.version(), "0.1.0 (build 1)");
  EXPECT_EQ(ps_0.shards(), 3u);
  EXPECT_EQ(ps_0.elements(), 116u);
  EXPECT_TRUE(ps_0.draining());
  EXPECT_EQ(FromProto(ps_0.since()), absl::ZeroDuration());
  EXPECT_EQ(list.ps_servers(1).name(), "ps-1");
  EXPECT_EQ(list.ps_servers(1).shards(), 1u);
  EXPECT_EQ(list.ps_servers(1).elements(), 7u);
  EXPECT_FALSE(list.ps_servers(1).draining());
  EXPECT_EQ(FromProto(list.ps_servers(1).since()), absl::Seconds(3));
  EXPECT_THAT(list.departed(), IsEmpty());
}

// After a restart of the coordinator nobody told who was missing.
TEST_F(MemberListTest, ServersThatHaveShardsAndAreNotThereComeFirst) {
  registry_.Remove(AddWorker("worker-0"), "the stream broke");
  registry_.Remove(AddPs("ps-2"), "no heartbeat for 6s");
  AddJob("j-1", RUNNING, {{"ps-2", {1}}, {"ps-1", {2}}, {"ps-1", {3}}, {"ps-0", {4}}});
  AddPs("ps-0");
  clock_.Advance(absl::Seconds(9));
  const ListMembersResponse list = List();
  EXPECT_THAT(list.ps_servers(), SizeIs(1));
  ASSERT_THAT(list.departed(), SizeIs(3));
  EXPECT_EQ(list.departed(0).name(), "ps-1");
  EXPECT_FALSE(list.departed(0).has_since());
  EXPECT_FALSE(list.departed(0).is_worker());
  EXPECT_EQ(list.departed(0).address(), "ps-1:7");
  EXPECT_EQ(list.departed(0).shards(), 2u);
  EXPECT_EQ(list.departed(0).elements(), 5u);
  EXPECT_EQ(list.departed(1).name(), "ps-2");
  EXPECT_EQ(list.departed(1).reason(), "no heartbeat for 6s");
  EXPECT_EQ(list.departed(1).shards(), 1u);
  EXPECT_EQ(FromProto(list.departed(1).since()), absl::Seconds(9));
  EXPECT_EQ(list.departed(2).name(), "worker-0");
}

TEST_F(MemberListTest, ServersThatAreEvacuatedAreListedAlsoWhenTheyAreGone) {
  registry_.Remove(AddPs("ps-2"), "it leaves");
  AddJob("j-1", RUNNING, {{"ps-1", {2}}});
  AddPs("ps-0");
  AddPs("ps-4");
  for (const std::string name : {"ps-0", "ps-1", "ps-2", "ps-3"}) {
    ASSERT_TRUE(evacuated_.Add("directory-of-" + name, name).ok());
  }
  const ListMembersResponse list = List();
  ASSERT_THAT(list.ps_servers(), SizeIs(2));
  EXPECT_TRUE(list.ps_servers(0).evacuated());
  EXPECT_FALSE(list.ps_servers(1).evacuated());
  ASSERT_THAT(list.departed(), SizeIs(3));
  EXPECT_EQ(list.departed(0).name(), "ps-1") << "it has shards";
  EXPECT_EQ(list.departed(1).name(), "ps-2");
  EXPECT_TRUE(list.departed(1).has_since());
  EXPECT_EQ(list.departed(2).name(), "ps-3");
  EXPECT_EQ(list.departed(2).directory_id(), "directory-of-ps-3");
  EXPECT_FALSE(list.departed(2).has_since());
  for (const DepartedMember& gone : list.departed()) EXPECT_TRUE(gone.evacuated()) << gone.name();
}

TEST_F(MemberListTest, WorkersTellWhatTheyComputeOnAndForWhom) {
  AddJob("j-2", RUNNING, {});
  AddJob("j-1", RUNNING, {});
  AddJob("j-0", FAILED, {});
  const uint64_t worker = AddWorker("worker-0");
  clock_.Advance(absl::Seconds(2));
  MemberMessage heartbeat;
  DeviceUse& use = *heartbeat.mutable_heartbeat()->mutable_device_use();
  use.set_memory(100);
  use.set_memory_used(30);
  use.set_busy(0.5);
  for (const std::string job : {"j-1", "another cluster's", "j-0", "j-2", "j-1"}) {
    heartbeat.mutable_heartbeat()->add_activities()->set_job_id(job);
  }
  ASSERT_TRUE(registry_.Receive(worker, heartbeat).ok());
  clock_.Advance(absl::Seconds(1));
  const ListMembersResponse list = List();
  ASSERT_THAT(list.workers(), SizeIs(1));
  const MemberReport& report = list.workers(0);
  EXPECT_EQ(report.device(), "cuda:0 (NVIDIA H200)");
  EXPECT_EQ(report.version(), "0.2.0 (build 2)");
  EXPECT_EQ(report.device_use().memory(), 100u);
  EXPECT_EQ(report.device_use().memory_used(), 30u);
  EXPECT_EQ(report.device_use().busy(), 0.5);
  EXPECT_THAT(report.job_ids(), ElementsAre("j-1", "j-2"));
  EXPECT_EQ(FromProto(report.since()), absl::Seconds(3));
  EXPECT_EQ(FromProto(report.silent()), absl::Seconds(1));
}

TEST_F(MemberListTest, WhoHasGoneIsToldUntilItIsBack) {
  registry_.Remove(AddWorker("worker-0"), "the stream broke");
  clock_.Advance(absl::Seconds(5));
  MemberMessage leaving;
  leaving.mutable_leaving();
  ASSERT_TRUE(registry_.Receive(AddPs("ps-0"), leaving).ok());
  const ListMembersResponse list = List();
  EXPECT_THAT(list.ps_servers(), IsEmpty());
  EXPECT_THAT(list.workers(), IsEmpty());
  ASSERT_THAT(list.departed(), SizeIs(2));
  EXPECT_EQ(list.departed(0).name(), "ps-0");
  EXPECT_FALSE(list.departed(0).is_worker());
  EXPECT_TRUE(list.departed(0).in_good_order());
  EXPECT_EQ(list.departed(1).name(), "worker-0");
  EXPECT_TRUE(list.departed(1).is_worker());
  EXPECT_EQ(list.departed(1).reason(), "the stream broke");
  EXPECT_FALSE(list.departed(1).in_good_order());
  EXPECT_EQ(FromProto(list.departed(1).since()), absl::Seconds(5));
  AddWorker("worker-0");
  ASSERT_THAT(List().departed(), SizeIs(1));
  AddPs("ps-7", /*directory=*/"directory-of-ps-0");
  EXPECT_THAT(List().departed(), IsEmpty()) << "its directory is back under another name";
}

}  // namespace
}  // namespace millrace::coordinator
