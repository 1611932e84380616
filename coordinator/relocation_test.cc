// A real coordinator on loopback with fake ps servers and workers: running jobs whose shards move
// from one server to another.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Enough that a job is in its middle when it is told something after step 31.
constexpr uint64_t kSteps = 3000;

// `shards`: 0, one for each server.
JobSpec SynchronousJob(uint32_t shards = 0) {
  JobSpec spec = PlainJob(kSteps);
  spec.mutable_synchronous()->set_replicas(4);
  spec.mutable_placement()->set_shards(shards);
  return spec;
}

std::string AwaitMove(FakeCluster& cluster, const std::string& job) {
  std::string how;
  const auto events = cluster.Watch(job, 0, [&](const JobEvent& event) {
    if (absl::StrContains(event.recovered().how(), " moved from ")) how = event.recovered().how();
    return !how.empty();
  });
  EXPECT_TRUE(events.ok()) << events.status();
  return how;
}

// Each shard has all steps, where the job has it; what is left elsewhere goes.
void ExpectNothingRunAgain(FakeCluster& cluster, const std::string& job,
                           const std::vector<size_t>& shards) {
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.steps_run_again(), 0u);
  for (size_t server = 0; server < shards.size(); ++server) {
    SpinUntil("what is left behind to be dropped", [&] {
      return cluster.ps(static_cast<int>(server)).Shards(job).size() == shards[server];
    });
  }
  cluster.ExpectAllApplied(job, kSteps);
}

class RelocationTest : public ::testing::TestWithParam<JobSpec> {};

TEST_P(RelocationTest, EvacuatedServerIsLeftAndNoStepIsLost) {
  StandingJob standing(3, 31, GetParam());
  auto& [gate, cluster, spec, job] = standing;
  const auto asked = cluster.Evacuate("ps-1");
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->name(), "ps-1");
  ASSERT_THAT(asked->jobs(), SizeIs(1));
  EXPECT_EQ(asked->jobs(0).job_id(), job);
  EXPECT_EQ(asked->jobs(0).shards(), 1u);
  gate.Open();
  EXPECT_THAT(AwaitMove(cluster, job), HasSubstr("shard 1 moved from ps-1 to ps-0 in "));
  cluster.ps(1).AwaitDropped(job);
  EXPECT_THAT(cluster.Evacuate("ps-1")->jobs(), IsEmpty());
  cluster.ps(1).Kill();
  ExpectNothingRunAgain(cluster, job, {2, 0, 1});
}

INSTANTIATE_TEST_SUITE_P(Modes, RelocationTest,
                         ::testing::Values(PlainJob(kSteps), SynchronousJob()));

TEST(MoveTest, JobGoesOnWhereItIsWhenNobodyTakesItsShards) {
  StandingJob standing(2, 31, SynchronousJob());
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).set_on_copy(
      [] { return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"); });
  ASSERT_TRUE(cluster.Evacuate("ps-1").ok());
  gate.Open();
  cluster.AwaitNotice(job, "shards stay for now where they are: ps-0 (");
  EXPECT_THAT(cluster.Evacuate("ps-1")->jobs(0).why(), HasSubstr("no room"));
  ExpectNothingRunAgain(cluster, job, {1, 1});
}

TEST(MoveTest, ServerOfAnOlderReleaseIsNamed) {
  StandingJob standing(2, 31, SynchronousJob());
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).set_on_copy([] { return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""); });
  ASSERT_TRUE(cluster.Evacuate("ps-1").ok());
  gate.Open();
  cluster.AwaitNotice(job, "shards stay for now where they are: ps-0 (");
  EXPECT_THAT(cluster.Evacuate("ps-1")->jobs(0).why(),
              AllOf(HasSubstr("ps-0 ("), HasSubstr("CopyShard")));
  ExpectNothingRunAgain(cluster, job, {1, 1});
}

// Somebody has pushed a step while nobody was to push.
TEST(MoveTest, CopyOfAnotherStateThanTheShardsIsNotTaken) {
  StandingJob standing(2, 31, PlainJob(kSteps));
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).set_on_copy([&cluster = standing.cluster, &job = standing.job] {
    FakePs& source = cluster.ps(1);
    const uint64_t generation = source.Shards(job)[0].generation();
    EXPECT_TRUE(source.Push(job, 1, generation, kSteps - 1).ok());
    return grpc::Status::OK;
  });
  ASSERT_TRUE(cluster.Evacuate("ps-1").ok());
  gate.Open();
  cluster.AwaitNotice(job, "what ps-0 has of shard 1 is not what it is");
  ASSERT_TRUE(cluster.Evacuate("ps-1", /*undo=*/true).ok());
  ExpectNothingRunAgain(cluster, job, {1, 1});
}

// Whoever asks while they are being copied would stop it otherwise, with the only copy soon.
TEST(MoveTest, ServerThatShardsAreOnTheirWayToIsNotSaidToBeEmpty) {
  Gate copying;
  StandingJob standing(3, 31, SynchronousJob(/*shards=*/2));
  auto& [gate, cluster, spec, job] = standing;
  size_t empty = 0;
  while (!cluster.ps(static_cast<int>(empty)).Shards(job).empty()) ++empty;
  const size_t left = (empty + 1) % 3;
  const std::string taker = absl::StrCat("ps-", empty);
  cluster.ps(static_cast<int>(empty)).set_on_copy([&copying] {
    copying.Pass();
    return grpc::Status::OK;
  });
  ASSERT_TRUE(cluster.Evacuate(absl::StrCat("ps-", left)).ok());
  gate.Open();
  copying.AwaitSomebody();
  const auto asked = cluster.Evacuate(taker);
  ASSERT_TRUE(asked.ok()) << asked.status();
  ASSERT_THAT(asked->jobs(), SizeIs(1));
  EXPECT_EQ(asked->jobs(0).shards(), 1u);
  EXPECT_EQ(asked->jobs(0).why(), "on their way there; they leave then");
  copying.Open();
  SpinUntil("the shard to leave again", [&cluster = standing.cluster, &taker] {
    return cluster.Evacuate(taker)->jobs().empty();
  });
  std::vector<size_t> shards(3);
  shards[(empty + 2) % 3] = 2;
  ExpectNothingRunAgain(cluster, job, shards);
}

// The copy is there, and the journal does not say so: it counts for nothing.
TEST(MoveTest, CoordinatorThatDiesBeforeAMoveIsSettledGoesOnWhereTheShardsWere) {
  Gate copying;
  StandingJob standing(2, 31, SynchronousJob());
  auto& [gate, cluster, spec, job] = standing;
  cluster.ps(0).set_on_copy([&copying] {
    copying.Pass();
    return grpc::Status::OK;
  });
  ASSERT_TRUE(cluster.Evacuate("ps-1").ok());
  gate.Open();
  copying.AwaitSomebody();
  ASSERT_TRUE(cluster.Evacuate("ps-1", /*undo=*/true).ok());
  cluster.StopCoordinator();
  copying.Open();
  cluster.ps(0).AwaitOpen(job, 1);
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  cluster.ps(1).Join(cluster.address());
  cluster.worker(0).Join(cluster.address());
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.steps_run_again(), 0u);
  // The copy may not have been dropped yet.
  EXPECT_EQ(cluster.ps(0).Shards(job)[0].applied().watermark(), kSteps);
  EXPECT_EQ(cluster.ps(1).Shards(job)[0].applied().watermark(), kSteps);
}

TEST(MoveTest, ServerStaysEvacuatedInTheNextLifeOfTheCoordinator) {
  FakeCluster cluster(1);
  cluster.StartPs();
  const auto asked = cluster.Evacuate(cluster.ps(0).directory_id());
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->name(), "ps-0");
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(20)).value();
  cluster.AwaitNotice(job, "1 ps servers (0 are connected, beside those that are evacuated)");
  ASSERT_TRUE(cluster.Evacuate("ps-0", /*undo=*/true).ok());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

// One that a job waits for is meant, though it has not been seen since the coordinator was started.
TEST(MoveTest, ServerThatIsAwayIsKnownByTheShardsThatItHas) {
  StandingJob standing(2, 31, SynchronousJob());
  auto& [gate, cluster, spec, job] = standing;
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  EXPECT_THAT(cluster.Evacuate("ps-9").status().ToString(),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("ps_server: ps-9")));
  const auto asked = cluster.Evacuate("ps-1");
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->name(), "") << "it is not there";
  EXPECT_EQ(asked->directory_id(), cluster.ps(1).directory_id());
  ASSERT_THAT(asked->jobs(), SizeIs(1));
  EXPECT_EQ(asked->jobs(0).shards(), 1u);
  SpinUntil("the job to say whom it waits for", [&cluster = standing.cluster] {
    return absl::StrContains(cluster.Evacuate("ps-1")->jobs(0).why(), "it waits for ");
  });
  gate.Open();
}

TEST(MoveTest, ShardsComeBackToAServerOnWhichWorkIsDone) {
  StandingJob standing(2, 31, SynchronousJob(/*shards=*/4));
  auto& [gate, cluster, spec, job] = standing;
  ASSERT_TRUE(cluster.Evacuate("ps-1").ok());
  EXPECT_THAT(cluster.Rebalance(job)->moves(), SizeIs(2)) << "those that leave";
  gate.Open();
  cluster.ps(1).AwaitDropped(job);
  EXPECT_THAT(cluster.Rebalance(job)->moves(), IsEmpty());
  ASSERT_TRUE(cluster.Evacuate("ps-1", /*undo=*/true).ok());
  const auto moves = cluster.Rebalance(job);
  ASSERT_TRUE(moves.ok()) << moves.status();
  ASSERT_THAT(moves->moves(), SizeIs(2));
  EXPECT_EQ(moves->moves(0).from(), "ps-0");
  EXPECT_EQ(moves->moves(0).to(), "ps-1");
  ExpectNothingRunAgain(cluster, job, {2, 2});
}

// It is not tried again: nobody is waiting for it.
TEST(MoveTest, RebalanceThatFailsSaysThatItHasToBeAskedForAgain) {
  StandingJob standing(2, 31, SynchronousJob(/*shards=*/4));
  auto& [gate, cluster, spec, job] = standing;
  ASSERT_TRUE(cluster.Evacuate("ps-1").ok());
  gate.Open();
  cluster.ps(1).AwaitDropped(job);
  ASSERT_TRUE(cluster.Evacuate("ps-1", /*undo=*/true).ok());
  cluster.ps(1).set_on_copy(
      [] { return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"); });
  EXPECT_THAT(cluster.Rebalance(job)->moves(), SizeIs(2));
  cluster.AwaitNotice(job, "shards stay where they are, until `millrace rebalance ");
  ExpectNothingRunAgain(cluster, job, {4, 0});
}

TEST(MoveTest, NothingIsRebalancedWhereAllServersAreEvacuated) {
  StandingJob standing(1, 31, SynchronousJob());
  auto& [gate, cluster, spec, job] = standing;
  ASSERT_TRUE(cluster.Evacuate("ps-0").ok());
  EXPECT_THAT(cluster.Rebalance(job).status().ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"),
                    HasSubstr("no ps server is there that could take shards")));
  gate.Open();
}

TEST(MoveTest, VariablesOfJobsThatHaveEndedAreCountedAndDoNotHoldUp) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(20)).value();
  ASSERT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  const auto asked = cluster.Evacuate("ps-0");
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_THAT(asked->jobs(), IsEmpty());
  EXPECT_EQ(asked->ended_jobs(), 1u);
}

TEST(MoveTest, JobsThatDoNotRunAreNotBalanced) {
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(PlainJob(20)).value();
  EXPECT_THAT(cluster.Rebalance(job).status().ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("is PENDING; must be RUNNING")));
  EXPECT_THAT(cluster.Rebalance("j").status().ToString(), HasSubstr("NOT_FOUND"));
}

}  // namespace
}  // namespace millrace::coordinator
