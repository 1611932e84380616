// A real coordinator on loopback with fake ps servers and workers: what is left of jobs that
// have ended, and for how long.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/remake_fixture.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// While the coordinator is stopped.
std::string CopyJournal(const FakeCluster& cluster) {
  const std::string copy = cluster.data_dir() + "_copy";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(cluster.data_dir(), copy, std::filesystem::copy_options::recursive);
  return copy;
}

void PutJournalBack(const std::string& copy, const FakeCluster& cluster) {
  std::filesystem::remove_all(cluster.data_dir());
  std::filesystem::rename(copy, cluster.data_dir());
}

// The answer was brought to what had trained the job, which was gone: the coordinator crashed.
TEST(EndedJobsTest, JobIsCancelledWhileItsShardsAreAskedHowTheyAre) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.ps(0).set_on_get([&gate] {
    gate.Pass();
    return grpc::Status::OK;
  });
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(1'000'000'000)).value();
  gate.AwaitSomebody();
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
  gate.Open();
}

// Their shards took no step any more: the one that ran was attached again and again, without end.
TEST(EndedJobsTest, JobsThatHaveEndedAfterTheJournalWasCopiedFailAndSayWhy) {
  Gate gate;
  CoordinatorOptions options;
  options.max_running_jobs = 1;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(3, &gate));
  const std::string running = cluster.Submit(PlainJob(20), "running").value();
  gate.AwaitSomebody();
  const std::string pending = cluster.Submit(PlainJob(20), "pending").value();
  cluster.StopCoordinator();
  const std::string copy = CopyJournal(cluster);
  const auto start = [&] {
    cluster.StartCoordinator();
    cluster.ps(0).Join(cluster.address());
    worker.Join(cluster.address());
  };
  gate.Open();
  start();
  for (const std::string& job : {running, pending}) {
    EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
    cluster.ps(0).AwaitRetired(job);
  }

  cluster.StopCoordinator();
  PutJournalBack(copy, cluster);
  start();
  for (const std::string& job : {running, pending}) {
    const JobStatus end = cluster.AwaitEnd(job);
    EXPECT_EQ(end.state(), FAILED);
    EXPECT_THAT(end.message(),
                AllOf(HasSubstr("shard 0 on ps-0 says that the job has ended, which the "
                                "coordinator's journal does not know"),
                      HasSubstr("are as they were at its end, and can be exported")));
    EXPECT_TRUE(cluster.Variables(job).ok()) << job;
    EXPECT_THAT(cluster.ps(0).Shards(job), SizeIs(1)) << job;
  }
}

// What was made again since the copy must not be made once more, from an older checkpoint, beside
// what is as it was at the end.
TEST(EndedJobsTest, ShardsOfAJobThatHasEndedAreNotMadeAgainWhereTheJournalIsOlder) {
  StandingJob standing(2, 30, JobWithCheckpoints(60), WithGrace(absl::Milliseconds(200)));
  auto& [gate, cluster, spec, job] = standing;
  WriteCheckpointOf(job, spec, {StepsBefore(10), StepsBefore(10)});
  cluster.StopCoordinator();
  const std::string copy = CopyJournal(cluster);
  cluster.ps(1).Kill();
  gate.Open();
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ps(0).AwaitRetired(job);

  cluster.StopCoordinator();
  PutJournalBack(copy, cluster);
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  cluster.ps(1).Start(cluster.address());
  const JobStatus end = cluster.AwaitEnd(job);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.message(), HasSubstr("says that the job has ended"));
  EXPECT_THAT(RemakesOf(cluster, job), IsEmpty());
}

TEST(EndedJobsTest, CancelledJobEndsAndStaysReadable) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(1'000'000'000)).value();
  cluster.AwaitRunning(job);
  const auto cancelled = cluster.Cancel(job);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), CANCELLED);
  EXPECT_EQ(cluster.Watch(job)->back().state_changed().state(), "CANCELLED");
  worker.AwaitForgotten(job);
  EXPECT_TRUE(cluster.Variables(job).ok());
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);

  const std::string pending = cluster.Submit(PlainJob(1)).value();
  cluster.AwaitEnd(pending);
  EXPECT_EQ(cluster.Cancel(pending)->state(), SUCCEEDED) << "a job that has ended stays as it is";
}

TEST(EndedJobsTest, ShardsOfOlderJobsAreDropped) {
  CoordinatorOptions options;
  options.retained_jobs = 1;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string first = cluster.Submit(PlainJob(2)).value();
  cluster.AwaitEnd(first);
  const std::string second = cluster.Submit(PlainJob(2)).value();
  cluster.AwaitEnd(second);
  cluster.ps(0).AwaitDropped(first);
  EXPECT_THAT(cluster.ps(0).Shards(second), SizeIs(1));
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  EXPECT_EQ(cluster.Variables(first).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster.Variables(second).status().code(), absl::StatusCode::kUnavailable);
  cluster.ps(0).Join(cluster.address());
  const auto variables = cluster.Variables(second);
  EXPECT_TRUE(variables.ok()) << variables.status();
}

// The message advised to cancel a job that had succeeded, and named no checkpoint.
TEST(EndedJobsTest, WhoAsksForVariablesOfADamagedShardIsToldOfACheckpoint) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  const JobSpec spec = JobWithCheckpoints(20);
  const std::string job = cluster.Submit(spec).value();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  cluster.ps(0).AwaitRetired(job);
  cluster.ps(0).Kill();
  cluster.ps(0).DamageDisk();
  cluster.ps(0).Start(cluster.address());
  const absl::Status damaged = cluster.Variables(job).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()),
              AllOf(HasSubstr("record 3: byte 9 is damaged"),
                    HasSubstr(absl::StrCat("or export checkpoint ", spec.checkpoints().directory(),
                                           "/000001 of step 20"))));
}

// The export had some shards at the job's end, and one far before it.
TEST(EndedJobsTest, VariablesOfAShardWithAnOldDiskAreNotThoseOfTheJob) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.AddWorker(WaitingAt(10, &gate));
  const std::string job = cluster.Submit(PlainJob(20)).value();
  gate.AwaitSomebody();
  FakePs& ps = cluster.ps(1);
  ps.FlushAll();
  const auto old_disk = ps.CopyDisk();
  gate.Open();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
  ps.AwaitRetired(job);
  const auto disk = ps.CopyDisk();
  ps.Kill();
  ps.PutDisk(*old_disk);
  ps.Start(cluster.address());
  const absl::Status old = cluster.Variables(job).status();
  EXPECT_EQ(old.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(old.message(),
              HasSubstr("shard 1 on ps-1 is not as it was after the job's 20 steps"));
  ps.Kill();
  ps.PutDisk(*disk);
  ps.Start(cluster.address());
  const auto variables = cluster.Variables(job);
  EXPECT_TRUE(variables.ok()) << variables.status();
}

// One server that never came back once kept the shards of all.
TEST(EndedJobsTest, ShardsAreDroppedWhereTheirServerIsThereAndElsewhereWhenItComes) {
  CoordinatorOptions options;
  options.retained_jobs = 1;
  FakeCluster cluster(2, options);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string old_job = cluster.Submit(PlainJob(2)).value();
  cluster.AwaitEnd(old_job);
  cluster.ps(1).FlushAll();
  cluster.ps(1).Kill();
  const std::string newer = cluster.Submit(PlainJob(2)).value();
  EXPECT_EQ(cluster.Cancel(newer)->state(), CANCELLED);
  cluster.ps(0).AwaitDropped(old_job);
  EXPECT_THAT(cluster.ps(1).Shards(old_job), SizeIs(1));
  EXPECT_EQ(cluster.Variables(old_job).status().code(), absl::StatusCode::kFailedPrecondition)
      << "some of its variables are gone";
  cluster.ps(1).Start(cluster.address());
  cluster.ps(1).AwaitDropped(old_job);
  EXPECT_EQ(cluster.ps(0).drops(), 1) << "what is dropped is not dropped again";
}

TEST(EndedJobsTest, StopDoesNotWaitForAServerThatIsToDropAShard) {
  CoordinatorOptions options;
  options.retained_jobs = 0;
  Gate gate;
  FakeCluster cluster(1, options);
  cluster.ps(0).set_on_drop([&] {
    gate.Pass();
    return grpc::Status::OK;
  });
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(PlainJob(2)).value();
  cluster.AwaitEnd(job);
  gate.AwaitSomebody();
  cluster.StopCoordinator();
  gate.Open();
}

TEST(EndedJobsTest, JobsThatEndedLongAgoAreForgottenForGood) {
  CoordinatorOptions options;
  options.retained_jobs = 1;
  options.retained_records = 2;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  cluster.AddWorker();
  std::vector<std::string> jobs;
  for (const char* request : {"a", "b", "c", "d"}) {
    jobs.push_back(cluster.Submit(PlainJob(2), request).value());
    cluster.AwaitEnd(jobs.back());
  }
  for (int i = 0; i < 2; ++i) cluster.AwaitUnknown(jobs[i]);
  EXPECT_THAT(cluster.ps(0).Shards(jobs[0]), IsEmpty());
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  EXPECT_THAT(cluster.List(), SizeIs(2));
  EXPECT_EQ(cluster.Get(jobs[0]).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Get(jobs[2])->state(), SUCCEEDED);
  EXPECT_EQ(cluster.Submit(PlainJob(2), "c").value(), jobs[2]);
  EXPECT_THAT(cluster.Submit(PlainJob(2), "a").value(), StartsWith("plain-5-"));
}

// The number of a forgotten job was not to be another job's.
TEST(EndedJobsTest, NumbersGoOnFromTheNewestJobThoughItEndedFirst) {
  CoordinatorOptions options;
  options.retained_jobs = 0;
  options.retained_records = 1;
  FakeCluster cluster(1, options);
  cluster.StartPs();
  const std::string old_job = cluster.Submit(PlainJob(1)).value();
  const std::string newest = cluster.Submit(PlainJob(1)).value();
  cluster.Cancel(newest).IgnoreError();
  cluster.Cancel(old_job).IgnoreError();
  cluster.StopCoordinator();
  cluster.StartCoordinator();
  EXPECT_TRUE(cluster.Get(newest).ok());
  EXPECT_THAT(cluster.Submit(PlainJob(1)).value(), StartsWith("plain-3-"));
}

// Pushes under way once changed what clients had been told was final: first nothing fenced the job,
// then its cancellation sometimes cancelled the calls that do.
TEST(EndedJobsTest, PushUnderWayDoesNotChangeACancelledJob) {
  Gate gate;
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorker& worker = cluster.AddWorker(WaitingAt(5, &gate));
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
  const uint64_t generation = worker.Generations(job).back();
  EXPECT_EQ(cluster.ps(0).Push(job, 0, generation, 5).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster.Variables(job)->routing().generation(), generation + 1);
  gate.Open();
}

// Nor was its shard ever retired: it refused that, as it was at an older generation.
TEST(EndedJobsTest, ServerThatWasAwayAtTheEndIsFencedBeforeAnybodyReadsIt) {
  Gate gate;
  FakeCluster cluster(2);
  cluster.StartPs();
  cluster.ps(1).set_flush_always(true);
  FakeWorker& worker = cluster.AddWorker(WaitingAt(5, &gate));
  const std::string job = cluster.Submit(PlainJob(60)).value();
  gate.AwaitSomebody();
  const uint64_t generation = worker.Generations(job).back();
  cluster.ps(1).Kill();
  cluster.AwaitNotice(job, "ps-1");
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
  EXPECT_EQ(cluster.Variables(job).status().code(), absl::StatusCode::kUnavailable);
  cluster.ps(1).Start(cluster.address());
  cluster.ps(1).AwaitRetired(job);
  const auto variables = cluster.Variables(job);
  ASSERT_TRUE(variables.ok()) << variables.status();
  EXPECT_EQ(cluster.ps(1).Shards(job)[0].generation(), variables->routing().generation());
  EXPECT_GT(variables->routing().generation(), generation);
  gate.Open();
}

}  // namespace
}  // namespace millrace::coordinator
