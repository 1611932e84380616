// More jobs than may run at a time.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/testing/fake_cluster.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

CoordinatorOptions OneAtATime() {
  CoordinatorOptions options;
  options.max_running_jobs = 1;
  options.max_pending_jobs = 3;
  return options;
}

TEST(QueueTest, JobsWaitForTheirTurnsAndSaySo) {
  Gate gate;
  FakeCluster cluster(1, OneAtATime());
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(0, &gate));
  std::vector<std::string> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(cluster.Submit(PlainJob(2)).value());
  gate.AwaitSomebody();
  EXPECT_EQ(cluster.Get(jobs[0])->state(), RUNNING);
  EXPECT_EQ(cluster.Get(jobs[3])->state(), PENDING);
  EXPECT_EQ(cluster.Get(jobs[1])->message(),
            "waits for its turn (0 jobs before it; --max_running_jobs is 1)");
  EXPECT_EQ(cluster.Get(jobs[2])->message(),
            "waits for its turn (1 job before it; --max_running_jobs is 1)");
  cluster.AwaitNotice(jobs[3], "waits for its turn (2 jobs before it");
  const absl::Status full = cluster.Submit(PlainJob(2)).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("--max_pending_jobs"));
  gate.Open();
  absl::Duration last;
  for (const std::string& job : jobs) {
    const JobStatus status = cluster.AwaitEnd(job);
    EXPECT_EQ(status.state(), SUCCEEDED);
    EXPECT_EQ(status.message(), "");
    const absl::Duration started =
        absl::Seconds(status.started().seconds()) + absl::Nanoseconds(status.started().nanos());
    EXPECT_GT(started, last) << "first in, first out";
    last = started;
  }
}

// Gives a ps server memory for one job's shard at a time. A job whose name begins with `first` is
// the first that gets it.
void MakeSmall(FakePs* ps, const std::string& first) {
  struct Memory {
    Mutex mutex;
    std::string holder;
  };
  ps->set_on_create([ps, first, memory = std::make_shared<Memory>()](const std::string& job_id) {
    MutexLock lock(&memory->mutex);
    const std::string& holder = memory->holder;
    bool may = holder.empty() ? absl::StartsWith(job_id, first) : holder == job_id;
    if (!holder.empty() && !may) {
      const std::vector<ShardStatus> shards = ps->Shards(holder);
      may = shards.empty() || shards[0].retired();
    }
    if (!may) return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "not enough memory");
    memory->holder = job_id;
    return grpc::Status::OK;
  });
}

// Each had a part of the memory that the other one needed, and both waited for ever.
TEST(QueueTest, JobsThatNeedTheSameMemoryRunOneAfterTheOther) {
  FakeCluster cluster(2);
  MakeSmall(&cluster.ps(0), "one");
  MakeSmall(&cluster.ps(1), "two");
  cluster.StartPs();
  cluster.AddWorker();
  std::vector<std::string> jobs;
  for (const char* name : {"one", "two"}) {
    JobSpec spec = PlainJob(5);
    spec.set_name(name);
    jobs.push_back(cluster.Submit(spec).value());
  }
  for (const std::string& job : jobs) {
    EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
    cluster.ExpectAllApplied(job, 5);
  }
}

// No time passes here: it does not wait until it is to try again.
TEST(QueueTest, JobThatWaitsForMemoryTriesAgainWhenAnotherHasEnded) {
  SimulatedClock clock;
  Gate gate;
  CoordinatorOptions options;
  options.clock = &clock;
  FakeCluster cluster(1, options);
  MakeSmall(&cluster.ps(0), "one");
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(0, &gate));
  JobSpec spec = PlainJob(5);
  spec.set_name("one");
  const std::string first = cluster.Submit(spec).value();
  gate.AwaitSomebody();
  spec.set_name("two");
  const std::string second = cluster.Submit(spec).value();
  cluster.AwaitNotice(second, "not enough memory");
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(first).state(), SUCCEEDED);
  EXPECT_EQ(cluster.AwaitEnd(second).state(), SUCCEEDED);
}

TEST(QueueTest, JobThatWaitsForItsTurnCanBeCancelled) {
  Gate gate;
  FakeCluster cluster(1, OneAtATime());
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(0, &gate));
  const std::string first = cluster.Submit(PlainJob(2)).value();
  const std::string second = cluster.Submit(PlainJob(2)).value();
  const std::string third = cluster.Submit(PlainJob(2)).value();
  gate.AwaitSomebody();
  EXPECT_EQ(cluster.Cancel(second)->state(), CANCELLED);
  EXPECT_THAT(cluster.Get(third)->message(), HasSubstr("(0 jobs before it"));
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(first).state(), SUCCEEDED);
  EXPECT_EQ(cluster.AwaitEnd(third).state(), SUCCEEDED);
}

TEST(QueueTest, RestartKeepsTheOrder) {
  Gate gate;
  FakeCluster cluster(1, OneAtATime());
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(0, &gate));
  std::vector<std::string> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(cluster.Submit(PlainJob(2)).value());
  gate.AwaitSomebody();
  cluster.StopCoordinator();
  gate.Open();
  cluster.StartCoordinator();
  EXPECT_THAT(cluster.Get(jobs[2])->message(), HasSubstr("(1 job before it"));
  cluster.ps(0).Join(cluster.address());
  worker.Join(cluster.address());
  for (const std::string& job : jobs) EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

}  // namespace
}  // namespace millrace::coordinator
