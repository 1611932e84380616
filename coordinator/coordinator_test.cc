// A real coordinator on loopback with fake ps servers and workers: what clients ask of it.
#include "coordinator/coordinator.h"

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/testing/fake_cluster.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(CoordinatorTest, WrongSpecsAndPlansAreRefused) {
  FakeCluster cluster(1);
  FakeWorkerScript script;
  script.plan = [](const JobSpec& spec) -> absl::StatusOr<JobPlan> {
    if (spec.seed() == 1) return absl::InvalidArgumentError("model.layers[0] 'dense': no");
    return PlainPlan();
  };
  cluster.AddWorker(script);
  JobSpec wrong = PlainJob(1);
  wrong.set_batch_size(0);
  const auto spec_error = cluster.Submit(wrong);
  EXPECT_EQ(spec_error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(spec_error.status()), HasSubstr("batch_size"));

  JobSpec unplannable = PlainJob(1);
  unplannable.set_seed(1);
  const auto plan_error = cluster.Submit(unplannable);
  EXPECT_EQ(plan_error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(plan_error.status()), HasSubstr("model.layers[0] 'dense': no"));

  JobSpec divided = PlainJob(1);
  divided.mutable_placement()->set_shards(48);
  const auto shards_error = cluster.Submit(divided);
  EXPECT_EQ(shards_error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(shards_error.status()), AllOf(HasSubstr("48"), HasSubstr("47")));
  EXPECT_THAT(cluster.List(), IsEmpty());
}

TEST(CoordinatorTest, JobWaitsForMembersAndSaysForWhom) {
  FakeCluster cluster(2);
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AwaitNotice(job, "a worker (none is connected)");
  JobStatus status = cluster.Get(job).value();
  EXPECT_EQ(status.state(), PENDING);
  EXPECT_THAT(status.message(), HasSubstr("waits for a worker"));
  EXPECT_EQ(cluster.Variables(job).status().code(), absl::StatusCode::kFailedPrecondition);
  cluster.AddWorker();
  cluster.ps(0).Start(cluster.address());
  cluster.AwaitNotice(job, "2 ps servers (1 is connected)");
  cluster.ps(1).Start(cluster.address());
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST(CoordinatorTest, UnplannableJobThatWasTakenWithoutWorkersFails) {
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(PlainJob(5)).value();
  FakeWorkerScript script;
  script.plan = [](const JobSpec&) { return absl::InvalidArgumentError("data.train: absent"); };
  cluster.AddWorker(script);
  const JobStatus status = cluster.AwaitEnd(job);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(), HasSubstr("data.train: absent"));
}

// Another one may come that can.
TEST(CoordinatorTest, JobThatNoWorkerHasMemoryForSaysWhatItNeedsAndWaits) {
  FakeCluster cluster(1);
  cluster.StartPs();
  FakeWorkerScript small;
  small.plan = [](const JobSpec&) { return absl::ResourceExhaustedError("needs 9.0 GiB"); };
  const std::string job = cluster.Submit(PlainJob(5)).value();
  cluster.AddWorker(small);
  constexpr char kWhat[] =
      "waits for a worker that can compile the model and open the data (worker-0: needs 9.0 GiB)";
  cluster.AwaitVerdict(job, kWhat);
  EXPECT_THAT(cluster.Get(job)->message(), HasSubstr(kWhat));
  EXPECT_THAT(cluster.Get(job)->state(), PENDING);
  EXPECT_THAT(MessageOf(cluster.Submit(PlainJob(5)).status()),
              HasSubstr("worker-0: needs 9.0 GiB"));
  cluster.AddWorker();
  EXPECT_EQ(cluster.AwaitEnd(job).state(), SUCCEEDED);
}

TEST(CoordinatorTest, PendingJobCanBeCancelled) {
  FakeCluster cluster(1);
  const std::string job = cluster.Submit(PlainJob(1)).value();
  EXPECT_EQ(cluster.Cancel(job)->state(), CANCELLED);
}

TEST(CoordinatorTest, WatchResumesAfterASequenceNumber) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  const std::string job = cluster.Submit(EvaluatedJob(40, 10)).value();
  const auto all = cluster.Watch(job);
  ASSERT_TRUE(all.ok());
  ASSERT_GT(all->size(), 3u);
  const auto rest = cluster.Watch(job, 2);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->size(), all->size() - 2);
  EXPECT_EQ(rest->front().sequence(), 3u);
  EXPECT_THAT(*cluster.Watch(job, all->size()), IsEmpty());
  EXPECT_EQ(cluster.Watch(job, all->size() + 1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(CoordinatorTest, UnknownJobsAreNotFound) {
  FakeCluster cluster(1);
  EXPECT_EQ(cluster.Get("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Watch("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Cancel("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.Variables("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(cluster.Get("a-job").status()), HasSubstr("a-job"));
}

TEST(CoordinatorTest, RepeatedSubmissionFindsTheFirstOnesJob) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  std::vector<std::string> jobs(4);
  std::vector<std::thread> clients;
  for (std::string& job : jobs) {
    clients.emplace_back([&] { job = cluster.Submit(PlainJob(2), "request-a").value(); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(jobs, testing::Each(jobs[0]));
  EXPECT_EQ(cluster.AwaitEnd(jobs[0]).state(), SUCCEEDED);
  EXPECT_NE(cluster.Submit(PlainJob(2), "request-b").value(), jobs[0]);
  EXPECT_EQ(cluster.Submit(PlainJob(2), "request-a").value(), jobs[0]);
}

// Keeps the warnings that are logged while it lives. Thread-safe.
class WarningLog final : public google::LogSink {
 public:
  WarningLog() { google::AddLogSink(this); }
  ~WarningLog() override { google::RemoveLogSink(this); }

  // Waits until a warning has `text`; returns all until then.
  std::string Await(const std::string& text) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
    MutexLock lock(&mutex_);
    while (!absl::StrContains(text_, text)) {
      if (Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) break;
    }
    return text_;
  }

 private:
  void send(google::LogSeverity severity, const char* /*full_filename*/,
            const char* /*base_filename*/, int /*line*/, const google::LogMessageTime& /*time*/,
            const char* message, size_t length) override {
    if (severity < google::GLOG_WARNING) return;
    MutexLock lock(&mutex_);
    text_.append(message, length);
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

TEST(CoordinatorTest, ShardsOfJobsThatTheJournalDoesNotKnowAreNamed) {
  FakeCluster old_cluster(1);
  old_cluster.StartPs();
  old_cluster.AddWorker();
  const std::string job = old_cluster.Submit(PlainJob(2)).value();
  old_cluster.AwaitEnd(job);

  WarningLog log;
  FakeCluster cluster(1);
  old_cluster.ps(0).Join(cluster.address());
  EXPECT_THAT(log.Await("ps-0 holds shards"), HasSubstr(job));
}

TEST(CoordinatorTest, ServerWithShardsOfKnownJobsIsNoReasonToWarn) {
  FakeCluster cluster(1);
  cluster.StartPs();
  cluster.AddWorker();
  cluster.AwaitEnd(cluster.Submit(PlainJob(2)).value());
  cluster.StopCoordinator();
  WarningLog log;
  cluster.StartCoordinator();
  cluster.ps(0).Join(cluster.address());
  cluster.AddWorker();
  cluster.AwaitEnd(cluster.Submit(PlainJob(2)).value());
  EXPECT_THAT(log.Await(""), Not(HasSubstr("holds shards")));
}

TEST(CoordinatorTest, DirectoryOfARunningCoordinatorIsRefused) {
  CoordinatorOptions options;
  options.data_dir = absl::StrCat(testing::TempDir(), "/locked");
  const auto first = Coordinator::Start(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Coordinator::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(second.status()), HasSubstr(options.data_dir));
}

}  // namespace
}  // namespace millrace::coordinator
