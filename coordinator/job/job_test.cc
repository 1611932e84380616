#include "coordinator/job/job.h"

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class JobTest : public testing::Test {
 protected:
  JobTest() { Reopen(); }

  void Reopen() {
    journal_.reset();
    auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
  }

  // The job as it is in the journal, or a new one.
  std::unique_ptr<Job> Load() {
    const auto entries = journal_->ReadJobs();
    if (entries.ok() && !entries->empty()) {
      return std::make_unique<Job>((*entries)[0].record, (*entries)[0].events, journal_.get(),
                                   &clock_);
    }
    JobRecord record;
    record.set_number(1);
    record.set_job_id("j-1");
    record.set_state(PENDING);
    return std::make_unique<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
  }

  static JobEvent EventAfter(Job& job, uint64_t sequence) {
    const auto read = job.events().ReadAfter(sequence, absl::ZeroDuration());
    EXPECT_TRUE(read.ok() && read->event) << "no event after " << sequence;
    return read.ok() && read->event ? *read->event : JobEvent();
  }

  SimulatedClock clock_{absl::UnixEpoch() + absl::Hours(1)};
  const std::string directory_ = TestDirectory("journal");
  std::unique_ptr<Journal> journal_;
};

TEST_F(JobTest, IdsAreMadeOfNameNumberAndLettersThatAreDrawn) {
  EXPECT_THAT(MakeJobId("mnist-cnn", 7), MatchesRegex("mnist-cnn-7-[a-z2-9]{4}"));
  EXPECT_THAT(MakeJobId("", 7), MatchesRegex("job-7-[a-z2-9]{4}"));
}

// The number of a job comes again where the journal is restored from a copy; what servers have of
// the first one was taken for the second one's.
TEST_F(JobTest, IdsOfTheSameNameAndNumberDiffer) {
  EXPECT_NE(MakeJobId("mnist-cnn", 7), MakeJobId("mnist-cnn", 7));
}

TEST_F(JobTest, StatesCarryTheirTimesAndSurviveARestart) {
  auto job = Load();
  ASSERT_TRUE(job->SetState(RUNNING, "").ok());
  clock_.Advance(absl::Seconds(30));
  job->SetStep(12);
  google::protobuf::Map<std::string, double> metrics;
  metrics["loss"] = 0.5;
  job->AddMetrics(metrics);
  ASSERT_TRUE(job->SetState(FAILED, "step 12: the loss is nan").ok());
  job.reset();
  Reopen();
  job = Load();
  const JobStatus status = job->Status();
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_EQ(status.message(), "step 12: the loss is nan");
  EXPECT_EQ(status.started().seconds(), 3600);
  EXPECT_EQ(status.ended().seconds(), 3630);
  EXPECT_EQ(status.step(), 12u);
  EXPECT_EQ(status.metrics().at("loss"), 0.5);
  EXPECT_TRUE(job->WaitUntilEnded(absl::ZeroDuration()));
}

// A worker that made up new names each time once made the record grow without bound.
TEST_F(JobTest, MetricsOfAJobAreLimited) {
  auto job = Load();
  for (int evaluation = 0; evaluation < 100; ++evaluation) {
    google::protobuf::Map<std::string, double> metrics;
    metrics["loss"] = evaluation;
    for (int i = 0; i < 10; ++i) metrics[absl::StrCat("m", evaluation, "-", i)] = i;
    job->AddMetrics(metrics);
  }
  EXPECT_EQ(job->Status().metrics().size(), 100u);
  EXPECT_EQ(job->Status().metrics().at("loss"), 99) << "what is known goes on";
  google::protobuf::Map<std::string, double> evaluation;
  for (int i = 0; i < 150; ++i) evaluation[absl::StrCat("eval_", i)] = i;
  job->AddMetrics(evaluation);
  EXPECT_EQ(job->Status().metrics().size(), 200u);
}

TEST_F(JobTest, LastEventIsToldAgainAfterARestart) {
  auto job = Load();
  job->AnnounceState();
  ASSERT_TRUE(job->SetState(RUNNING, "").ok());
  ASSERT_TRUE(job->SetState(SUCCEEDED, "").ok());
  Reopen();
  job = Load();
  const JobEvent last = EventAfter(*job, 0);
  EXPECT_EQ(last.sequence(), 3u);
  EXPECT_EQ(last.state_changed().state(), "SUCCEEDED");
  EXPECT_TRUE(job->events().ReadAfter(3, absl::ZeroDuration())->end);
}

// Its directory is free for others from then on.
TEST_F(JobTest, NobodyHearsOfAnEndBeforeWhatIsDoneOnceItIsJournaled) {
  auto job = Load();
  ASSERT_TRUE(job->SetState(RUNNING, "").ok());
  bool was_called = false;
  const auto look = [&] {
    was_called = true;
    EXPECT_EQ(journal_->ReadJobs()->at(0).record.state(), SUCCEEDED);
    EXPECT_EQ(job->state(), RUNNING);
  };
  ASSERT_TRUE(job->SetState(SUCCEEDED, "", {}, look).ok());
  EXPECT_TRUE(was_called);
  EXPECT_EQ(job->state(), SUCCEEDED);
}

TEST_F(JobTest, EventNumbersOfARunningJobGoOnAfterARestart) {
  auto job = Load();
  ASSERT_TRUE(job->SetState(RUNNING, "").ok());
  job->AppendNotice("one");
  Reopen();
  job = Load();
  job->AppendNotice("two");
  EXPECT_EQ(EventAfter(*job, 2).sequence(), 3u);
}

// Members' words are in notices, which go to the log.
TEST_F(JobTest, NoticesHaveOneLine) {
  auto job = Load();
  job->AppendNotice("worker-0: x\nE20261129 00:00:00.000000     1 main.cc:1] forged");
  EXPECT_EQ(EventAfter(*job, 0).notice().message(),
            "worker-0: x\\x0aE20261129 00:00:00.000000     1 main.cc:1] forged");
}

TEST_F(JobTest, WaitingJobSaysForWhomAndForHowLong) {
  auto job = Load();
  ASSERT_TRUE(job->SetState(RUNNING, "").ok());
  job->SetWaiting("ps-1 (127.0.0.1:2223), gone");
  clock_.Advance(absl::Seconds(12));
  EXPECT_EQ(job->Status().message(), "waits for ps-1 (127.0.0.1:2223), gone for 12 s");
  job->SetWaiting("ps-1 (127.0.0.1:2223), gone");
  EXPECT_EQ(job->Status().message(), "waits for ps-1 (127.0.0.1:2223), gone for 12 s");
  EXPECT_EQ(EventAfter(*job, 1).notice().message(), "waits for ps-1 (127.0.0.1:2223), gone");
  EXPECT_FALSE(job->events().ReadAfter(2, absl::ZeroDuration())->event) << "told once";
  job->ClearWaiting();
  EXPECT_EQ(job->Status().message(), "");
  job->SetWaiting("a worker");
  EXPECT_EQ(job->Status().message(), "waits for a worker for 0 s") << "it counts anew";
}

TEST_F(JobTest, WhoWaitsForTheEndIsWoken) {
  auto job = Load();
  EXPECT_FALSE(job->WaitUntilEnded(absl::ZeroDuration()));
  std::thread waiter([&] { EXPECT_TRUE(job->WaitUntilEnded(absl::Seconds(60))); });
  ASSERT_TRUE(job->SetState(CANCELLED, "cancelled by a client").ok());
  waiter.join();
  EXPECT_THAT(job->Status().message(), HasSubstr("client"));
}

}  // namespace
}  // namespace millrace::coordinator
