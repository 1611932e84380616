#include "client/commands/unfinished_job.h"

#include <memory>

#include "client/testing/fake_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::FakeJobs;
using ::testing::HasSubstr;

class UnfinishedJobTest : public ::testing::Test {
 protected:
  UnfinishedJobTest() : client_(*JobsClient::Create({.address = jobs_.address()})) {
    spec_.set_name("mnist");
    spec_.set_epochs(3);
  }

  void AddJob(const std::string& job_id, JobState state, const JobSpec& spec) {
    JobStatus status;
    status.set_job_id(job_id);
    status.set_state(state);
    status.set_step(7);
    *status.mutable_spec() = spec;
    jobs_.SetJob(status);
  }

  FakeJobs jobs_;
  std::unique_ptr<JobsClient> client_;
  JobSpec spec_;
};

TEST_F(UnfinishedJobTest, JobsThatHaveEndedAreLeftAlone) {
  AddJob("mnist-1", SUCCEEDED, spec_);
  AddJob("mnist-2", CANCELLED, spec_);
  const auto found = FindUnfinishedJob(client_.get(), spec_, "state");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_value());
}

TEST_F(UnfinishedJobTest, TheSameJobIsFound) {
  AddJob("mnist-1", FAILED, spec_);
  AddJob("mnist-2", RUNNING, spec_);
  const auto found = FindUnfinishedJob(client_.get(), spec_, "state");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->value(), "mnist-2");
}

TEST_F(UnfinishedJobTest, AnotherJobStandsInTheWay) {
  JobSpec other = spec_;
  other.set_epochs(4);
  AddJob("mnist-1", PENDING, other);
  const auto found = FindUnfinishedJob(client_.get(), spec_, "state");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(found.status().ToString(), HasSubstr("mnist-1"));
  EXPECT_THAT(found.status().ToString(), HasSubstr("--state_dir=state"));
}

}  // namespace
}  // namespace millrace::client
