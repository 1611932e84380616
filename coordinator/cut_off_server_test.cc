// A ps server that is a member and that the coordinator cannot call, before a job begins or while
// it trains. Who waits for it see coordinator/run/worker_waits_test.cc.
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/proto_duration.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// ps-1 is a member, and cannot be called from some moment on. Its job has a checkpoint of step 16.
struct CutOffJob {
  explicit CutOffJob(uint64_t waits_at, Gate* at_fourth_refusal = nullptr)
      : fourth_refusal(at_fourth_refusal), cluster(2, WithGrace(absl::Seconds(1))) {
    const auto answer = [this] {
      if (is_reached) return grpc::Status::OK;
      if (refused.fetch_add(1) == 3 && fourth_refusal != nullptr) fourth_refusal->Pass();
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused");
    };
    FakePs& ps = cluster.ps(1);
    ps.set_on_generation(answer);
    ps.set_on_get(answer);
    ps.set_on_flush(answer);
    cluster.StartPs();
    worker = &cluster.AddWorker(WaitingAt(waits_at, &gate));
    JobSpec spec = JobWithCheckpoints(60);
    spec.mutable_checkpoints()->set_every_steps(16);
    job = cluster.Submit(spec).value();
    gate.AwaitSomebody();
    cluster.AwaitCheckpoint(job);
    is_reached = false;
  }

  std::atomic<bool> is_reached{true};
  std::atomic<int> refused{0};
  Gate* fourth_refusal = nullptr;
  Gate gate;
  FakeCluster cluster;
  FakeWorker* worker = nullptr;
  std::string job;
};

// Only attaching counted how long it was not served. A job that trained waited without end.
TEST(CutOffServerTest, ServerThatNobodyCanCallWhileAJobTrainsIsGivenUpAfterTheGrace) {
  CutOffJob cut_off(30);
  auto& cluster = cut_off.cluster;
  Activity waits;
  waits.set_job_id(cut_off.job);
  waits.set_kind(Activity::PUSHING);
  waits.set_step(30);
  waits.set_shard(1);
  *waits.mutable_since() = ToProto(absl::Seconds(4));
  cut_off.worker->Tell(waits);
  const auto has_recovered = [](const JobEvent& event) { return event.has_recovered(); };
  ASSERT_TRUE(cluster.Watch(cut_off.job, 0, has_recovered).ok());
  cut_off.gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(cut_off.job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(0).Shards(cut_off.job), SizeIs(2));
  EXPECT_EQ(RemakesOf(cluster, cut_off.job)[0].cause(),
            "shard 1 on ps-1 is not served for longer than 1s");
}

TEST(CutOffServerTest, ServerThatCannotBeCalledAtTheEndOfAJobIsGivenUpAfterTheGrace) {
  CutOffJob cut_off(59);
  cut_off.gate.Open();
  EXPECT_EQ(cut_off.cluster.AwaitEnd(cut_off.job).state(), SUCCEEDED);
  EXPECT_THAT(cut_off.cluster.ps(0).Shards(cut_off.job), SizeIs(2));
}

// Two have one --advertise. What was placed on one of them was made on the other, whom the
// coordinator does not take, and the job waited for it without end.
TEST(CutOffServerTest, NothingIsMadeOnWhoAnswersAtTheAddressOfAnotherServer) {
  FakePs stranger("ps-9");
  stranger.Serve();
  FakeCluster cluster(2, WithGrace(absl::Seconds(1)));
  cluster.ps(1).set_advertise(stranger.address());
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(30)).value();
  cluster.AwaitNotice(job, "directory_id: ");
  cluster.AwaitNotice(job, "; the job begins on other servers");
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(1));
  EXPECT_THAT(stranger.Shards(job), IsEmpty());
}

// A step may take long, and workers reach what the coordinator does not.
TEST(CutOffServerTest, ServerThatNoWorkerWaitsForIsNotGivenUp) {
  Gate fourth_refusal;
  CutOffJob cut_off(30, &fourth_refusal);
  fourth_refusal.AwaitSomebody();
  cut_off.is_reached = true;
  fourth_refusal.Open();
  cut_off.gate.Open();
  EXPECT_EQ(cut_off.cluster.AwaitEnd(cut_off.job).state(), SUCCEEDED);
  EXPECT_THAT(RemakesOf(cut_off.cluster, cut_off.job), IsEmpty());
}

}  // namespace
}  // namespace millrace::coordinator
