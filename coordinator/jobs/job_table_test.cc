// What becomes of jobs for whose runners the system has no thread; with a whole coordinator see
// coordinator/*_test.cc.
#include "coordinator/jobs/job_table.h"

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_table_fixture.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kEndPatience = absl::Seconds(60);

class JobTableTest : public JobTableFixture {
 protected:
  // The first `failures` times there is no thread.
  RunnerEnvironment WithoutThreads(int failures) {
    RunnerEnvironment environment = Environment();
    environment.clock = &clock_;
    environment.start_thread =
        [this, failures](std::function<void()> run) mutable -> absl::StatusOr<std::thread> {
      if (failures-- > 0) return absl::ResourceExhaustedError("none can be started: no memory");
      started_.Open();
      return std::thread(std::move(run));
    };
    return environment;
  }

  std::shared_ptr<Job> Add(uint64_t number, JobTable& table) {
    JobRecord record = PendingJob();
    record.set_number(number);
    record.set_job_id(absl::StrCat("j-", number));
    auto job = std::make_shared<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
    std::shared_ptr<CheckpointHold> hold;
    EXPECT_EQ(table.Add(job, hold), absl::OkStatus());
    return job;
  }

  static void ExpectCancelled(const Job& job) {
    EXPECT_TRUE(job.WaitUntilEnded(kEndPatience));
    EXPECT_EQ(job.state(), CANCELLED);
  }

  SimulatedClock clock_;
  Gate started_;
};

// The coordinator was gone, and with it that of all other jobs.
TEST_F(JobTableTest, JobForWhichThereIsNoThreadSaysSoAndBeginsLater) {
  JobTable table(WithoutThreads(1), RetentionLimits(), journal_.get());
  const auto job = Add(1, table);
  EXPECT_EQ(job->state(), PENDING);
  EXPECT_THAT(job->Status().message(),
              HasSubstr("waits for a thread of the coordinator (none can be started: no memory)"));
  clock_.Advance(absl::Seconds(1));
  started_.Pass();
  table.Cancel(*job);
  ExpectCancelled(*job);
}

TEST_F(JobTableTest, WhatIsSaidToAJobThatHasNoThreadYetIsHeardWhenItHas) {
  JobTable table(WithoutThreads(1), RetentionLimits(), journal_.get());
  const auto job = Add(1, table);
  table.Cancel(*job);
  EXPECT_EQ(job->state(), PENDING);
  clock_.Advance(absl::Seconds(1));
  ExpectCancelled(*job);
}

// Time stands still.
TEST_F(JobTableTest, NextJobThatComesBringsTheOthersTheirThreads) {
  JobTable table(WithoutThreads(1), RetentionLimits(), journal_.get());
  const auto first = Add(1, table);
  table.Cancel(*first);
  const auto second = Add(2, table);
  ExpectCancelled(*first);
  table.Cancel(*second);
  ExpectCancelled(*second);
}

TEST_F(JobTableTest, TableStopsWithAJobThatHasNoThread) {
  JobTable table(WithoutThreads(1), RetentionLimits(), journal_.get());
  const auto job = Add(1, table);
  table.Stop();
  EXPECT_EQ(job->state(), PENDING) << "the coordinator's next life takes it up";
}

}  // namespace
}  // namespace millrace::coordinator
