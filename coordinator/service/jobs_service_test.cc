// The service before its table is ready; with a real coordinator see coordinator/*_test.cc.
#include "coordinator/service/jobs_service.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/run/planner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A table whose journal holds one job that waits for a worker, and nobody is connected.
class JobsServiceTest : public testing::Test {
 protected:
  JobsServiceTest()
      : registry_(absl::Hours(1), Clock::Real()),
        dispatcher_(&registry_, {}),
        planner_(&registry_, Clock::Real()) {}

  void SetUp() override {
    ASSERT_TRUE(journal_->Write(PendingJob()).ok());
    Load();
  }

  // Takes up what is in the journal.
  void Load() {
    service_.reset();
    submissions_.reset();
    table_.reset();
    RunnerEnvironment environment;
    environment.registry = &registry_;
    environment.dispatcher = &dispatcher_;
    environment.planner = &planner_;
    table_ = std::make_unique<JobTable>(environment, RetentionLimits(), journal_.get());
    submissions_ = std::make_unique<Submissions>(environment, journal_.get(), table_.get());
    service_ =
        std::make_unique<JobsService>(table_.get(), submissions_.get(), &registry_, &evacuated_);
    ASSERT_TRUE(table_->Load().ok());
  }

  grpc::Status Cancel(JobStatus* status) {
    grpc::ServerContext context;
    CancelJobRequest request;
    request.set_job_id("j-1");
    return service_->CancelJob(&context, &request, status);
  }

  MemberRegistry registry_;
  Dispatcher dispatcher_;
  Planner planner_;
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  EvacuatedServers evacuated_{journal_.get()};
  std::unique_ptr<JobTable> table_;
  std::unique_ptr<Submissions> submissions_;
  std::unique_ptr<JobsService> service_;
};

TEST_F(JobsServiceTest, JobsAreListedInPages) {
  const std::vector<std::string> names = {"", "", "two", "three", "four", "five"};
  for (const uint64_t number : {2, 3, 4, 5}) {
    JobRecord record = PendingJob();
    record.set_job_id(absl::StrCat("j-", number));
    record.set_number(number);
    record.mutable_spec()->set_name(names[number]);
    ASSERT_TRUE(journal_->Write(record).ok());
  }
  Load();
  table_->Resume();
  service_->Open();
  std::vector<std::string> pages;
  ListJobsRequest request;
  request.set_page_size(2);
  do {
    grpc::ServerContext context;
    ListJobsResponse page;
    ASSERT_TRUE(service_->ListJobs(&context, &request, &page).ok());
    pages.emplace_back();
    for (const JobStatus& job : page.jobs()) {
      absl::StrAppend(&pages.back(), job.job_id(), " ", job.spec().name(), "; ");
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(pages, ElementsAre("j-5 five; j-4 four; ", "j-3 three; j-2 two; ", "j-1 ; "));

  request.set_page_token("j-4");
  grpc::ServerContext context;
  ListJobsResponse page;
  const grpc::Status refused = service_->ListJobs(&context, &request, &page);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("page_token: j-4; must be"));
}

// The job had no runner then, so that a cancellation was answered, and lost.
TEST_F(JobsServiceTest, CallsAreRefusedUntilJobsHaveBeenTakenUp) {
  JobStatus status;
  const grpc::Status early = Cancel(&status);
  EXPECT_EQ(early.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(early.error_message(), HasSubstr("still starting"));
  grpc::ServerContext context;
  SubmitJobResponse taken;
  const SubmitJobRequest request;
  EXPECT_EQ(service_->SubmitJob(&context, &request, &taken).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  const ListMembersRequest who;
  ListMembersResponse members;
  EXPECT_EQ(service_->ListMembers(&context, &who, &members).error_code(),
            grpc::StatusCode::UNAVAILABLE)
      << "the jobs that have shards on them are not known yet";

  table_->Resume();
  service_->Open();
  EXPECT_TRUE(service_->ListMembers(&context, &who, &members).ok());
  ASSERT_TRUE(Cancel(&status).ok());
  EXPECT_EQ(status.state(), CANCELLED);
}

TEST_F(JobsServiceTest, CallsAreRefusedWhenTheCoordinatorStops) {
  table_->Resume();
  service_->Open();
  service_->Shutdown();
  JobStatus status;
  EXPECT_EQ(Cancel(&status).error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace millrace::coordinator
