#include "client/jobs_client.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/fake_jobs.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "protos/job.grpc.pb.h"

namespace millrace::client {
namespace {

using ::millrace::testing::FakeJobs;
using ::millrace::testing::NoticeEvent;
using ::millrace::testing::ProgressEvent;
using ::millrace::testing::StateEvent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const grpc::Status kUnavailable(grpc::StatusCode::UNAVAILABLE, "the coordinator starts");

class JobsClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<JobsClient> MakeClient(absl::Duration timeout = absl::Seconds(30)) {
    JobsClientOptions options;
    options.address = jobs_.address();
    options.timeout = timeout;
    options.submit_patience = timeout;
    options.watch_patience = timeout;
    options.on_wait = [this](const std::string& message) {
      MutexLock lock(&mutex_);
      notices_.push_back(message);
    };
    auto client = JobsClient::Create(std::move(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // A running job with this many events.
  void AddJobWithEvents(const std::string& job_id, int events) {
    JobStatus status;
    status.set_job_id(job_id);
    status.set_state(RUNNING);
    jobs_.SetJob(status);
    for (int i = 1; i <= events; ++i) jobs_.AddEvent(job_id, ProgressEvent(i, 100, 10));
  }

  std::vector<std::string> notices() {
    MutexLock lock(&mutex_);
    return notices_;
  }

  Mutex mutex_;
  std::vector<std::string> notices_ ABSL_GUARDED_BY(mutex_);
  FakeJobs jobs_;
};

// Collects what a watch reports.
struct Seen {
  std::vector<uint64_t> sequences;
  std::function<void(const JobEvent&)> Callback() {
    return [this](const JobEvent& event) { sequences.push_back(event.sequence()); };
  }
};

TEST_F(JobsClientTest, SubmitsAndFindsAJob) {
  const auto client = MakeClient();
  JobSpec spec;
  spec.set_name("mnist");
  const auto job_id = client->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  const auto status = client->Get(*job_id);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->spec().name(), "mnist");
  const auto jobs = client->List();
  ASSERT_TRUE(jobs.ok());
  ASSERT_THAT(*jobs, SizeIs(1));
  EXPECT_EQ(jobs->front().job_id(), *job_id);
}

TEST_F(JobsClientTest, SubmitWhoseReplyIsLostTakesTheJobOnce) {
  jobs_.LoseNextReplies(2);
  const auto client = MakeClient();
  const auto job_id = client->Submit(JobSpec());
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  ASSERT_THAT(jobs_.submissions(), SizeIs(3));
  EXPECT_EQ(jobs_.submissions()[0].request_id(), jobs_.submissions()[2].request_id());
  EXPECT_THAT(*client->List(), SizeIs(1));
}

// It was given up after three minutes, with a message that blamed the coordinator.
TEST_F(JobsClientTest, SubmitWaitsForAWorkerAsLongAsTheCoordinatorDoes) {
  jobs_.HoldSubmissions();
  JobsClientOptions options;
  options.address = jobs_.address();
  options.submit_patience = absl::ZeroDuration();
  options.planning_is_long = absl::Milliseconds(1);
  std::vector<std::string> told;
  options.on_wait = [&](const std::string& message) {
    told.push_back(message);
    jobs_.ReleaseSubmissions();
  };
  const auto job_id = (*JobsClient::Create(std::move(options)))->Submit(JobSpec());
  EXPECT_TRUE(job_id.ok()) << job_id.status();
  EXPECT_THAT(told, ElementsAre("waits until a worker has compiled the model and opened the data"));
}

TEST_F(JobsClientTest, TwoSubmissionsAreTwoJobs) {
  const auto client = MakeClient();
  EXPECT_NE(*client->Submit(JobSpec()), *client->Submit(JobSpec()));
}

TEST_F(JobsClientTest, RetriesWhileTheCoordinatorIsUnavailableAndSaysSoOnce) {
  jobs_.FailNextCalls({kUnavailable, kUnavailable});
  EXPECT_TRUE(MakeClient()->List().ok());
  EXPECT_THAT(notices(), ElementsAre("waits, as the coordinator says: the coordinator starts"));
}

TEST_F(JobsClientTest, ListHasTheJobsOfAllPages) {
  for (const char* id : {"job-1", "job-2", "job-3", "job-4", "job-5"}) {
    JobStatus status;
    status.set_job_id(id);
    jobs_.SetJob(status);
  }
  const auto listed = MakeClient()->List();
  ASSERT_TRUE(listed.ok()) << listed.status();
  std::vector<std::string> ids;
  for (const JobStatus& status : *listed) ids.push_back(status.job_id());
  EXPECT_THAT(ids, ElementsAre("job-5", "job-4", "job-3", "job-2", "job-1"));
}

TEST_F(JobsClientTest, OtherErrorsAreReturnedAtOnceAndUnchanged) {
  jobs_.FailNextCalls({grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "batch_size: 0")});
  EXPECT_EQ(MakeClient()->Submit(JobSpec()).status(), absl::InvalidArgumentError("batch_size: 0"));
  jobs_.FailNextCalls({grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "no worker answered")});
  EXPECT_EQ(MakeClient()->Submit(JobSpec()).status(),
            absl::DeadlineExceededError("no worker answered"));
  EXPECT_EQ(MakeClient()->Get("job-9").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(notices(), IsEmpty());
}

TEST_F(JobsClientTest, GivesUpWithTheAddressWhereNobodyListens) {
  jobs_.Stop();
  const absl::Status status = MakeClient(absl::Milliseconds(300))->List().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr(jobs_.address()));
  EXPECT_THAT(status.ToString(), HasSubstr("ListJobs within 300ms"));
}

TEST_F(JobsClientTest, WhatIsNoCoordinatorIsSaidToBeNone) {
  Jobs::Service nothing;  // Knows no call, as a ps server.
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&nothing);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  JobsClientOptions options;
  options.address = absl::StrCat("127.0.0.1:", port);
  const absl::Status status = (*JobsClient::Create(std::move(options)))->List().status();
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(status.message(),
              HasSubstr(absl::StrCat("asked at 127.0.0.1:", port, ", but what listens there")));
}

TEST_F(JobsClientTest, MalformedAddressIsRefused) {
  EXPECT_EQ(JobsClient::Create({.address = "no port"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JobsClientTest, CancelReturnsTheStatus) {
  AddJobWithEvents("a", 3);
  const auto status = MakeClient()->Cancel("a");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->state(), CANCELLED);
}

TEST_F(JobsClientTest, VariablesOfAJobThatHasNotStartedAreAFailedPrecondition) {
  AddJobWithEvents("a", 0);
  EXPECT_EQ(MakeClient()->GetVariables("a", absl::Minutes(1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// The message that names the servers was buried in one that blamed the coordinator.
TEST_F(JobsClientTest, VariablesOnServersThatAreAwayAreWaitedForAndNamed) {
  AddJobWithEvents("a", 0);
  const grpc::Status away(grpc::StatusCode::UNAVAILABLE, "on servers that are away: ps-1");
  jobs_.FailNextCalls({away, away});
  const absl::Status status = MakeClient()->GetVariables("a", absl::Milliseconds(50)).status();
  EXPECT_EQ(status, absl::UnavailableError("on servers that are away: ps-1 (the answer to "
                                           "GetVariables of the coordinator at " +
                                           jobs_.address() + " for 50ms)"));
  EXPECT_THAT(notices(),
              ElementsAre("waits, as the coordinator says: on servers that are away: ps-1"));
}

// It once blamed a coordinator that was well.
TEST_F(JobsClientTest, ACheckpointThatDoesNotComeIsNoFaultOfTheCoordinators) {
  AddJobWithEvents("a", 1);
  jobs_.HoldCheckpoints();
  EXPECT_EQ(MakeClient()->Checkpoint("a", /*wait=*/true, absl::Milliseconds(50)).status(),
            absl::DeadlineExceededError("there was no checkpoint of job a within 50ms"));
}

TEST_F(JobsClientTest, AwaitEndReturnsTheNewestStatusWhenItsTimeIsOver) {
  AddJobWithEvents("a", 1);
  EXPECT_EQ(MakeClient()->AwaitEnd("a", absl::ZeroDuration())->state(), RUNNING);
}

TEST_F(JobsClientTest, AwaitEndWaitsForTheFinalState) {
  AddJobWithEvents("a", 1);
  const auto client = MakeClient();
  absl::StatusOr<JobStatus> status = absl::UnknownError("");
  std::thread waiter([&] { status = client->AwaitEnd("a", absl::Minutes(5)); });
  jobs_.AddEvent("a", StateEvent(CANCELLED));
  waiter.join();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state(), CANCELLED);
}

TEST_F(JobsClientTest, WatchEndsAfterTheLastEvent) {
  AddJobWithEvents("a", 2);
  jobs_.AddEvent("a", StateEvent(SUCCEEDED, 100));
  Seen seen;
  EXPECT_TRUE(MakeClient()->Watch("a", 0, seen.Callback()).ok());
  EXPECT_THAT(seen.sequences, ElementsAre(1, 2, 3));
}

TEST_F(JobsClientTest, WatchStartsAfterTheGivenEvent) {
  AddJobWithEvents("a", 3);
  jobs_.AddEvent("a", StateEvent(FAILED));
  Seen seen;
  EXPECT_TRUE(MakeClient()->Watch("a", 2, seen.Callback()).ok());
  EXPECT_THAT(seen.sequences, ElementsAre(3, 4));
}

TEST_F(JobsClientTest, BrokenWatchesResumeWithoutGapsAndDuplicates) {
  AddJobWithEvents("a", 5);
  jobs_.AddEvent("a", StateEvent(SUCCEEDED));
  jobs_.BreakNextWatches({{2, kUnavailable},
                          {0, grpc::Status(grpc::StatusCode::CANCELLED, "the server stops")},
                          {1, grpc::Status(grpc::StatusCode::INTERNAL, "RST_STREAM")},
                          {1, grpc::Status::OK}});
  Seen seen;
  EXPECT_TRUE(MakeClient()->Watch("a", 0, seen.Callback()).ok());
  EXPECT_THAT(seen.sequences, ElementsAre(1, 2, 3, 4, 5, 6));
  std::vector<uint64_t> asked;
  for (const WatchJobRequest& watch : jobs_.watches()) asked.push_back(watch.after_sequence());
  EXPECT_THAT(asked, ElementsAre(0, 2, 2, 3, 4));
}

TEST_F(JobsClientTest, WatchSurvivesARestartedCoordinator) {
  AddJobWithEvents("a", 2);
  Seen seen;
  absl::Status status = absl::UnknownError("");
  const auto client = MakeClient();
  std::thread watcher([&] { status = client->Watch("a", 0, seen.Callback()); });
  EXPECT_TRUE(jobs_.WaitForWatches(1));
  jobs_.Stop();
  jobs_.Restart();
  jobs_.AddEvent("a", NoticeEvent("the coordinator is back"));
  jobs_.AddEvent("a", StateEvent(SUCCEEDED));
  watcher.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen.sequences, ElementsAre(1, 2, 3, 4));
}

TEST_F(JobsClientTest, WatchGoesOnWhereACoordinatorLostItsNewestEvents) {
  AddJobWithEvents("a", 4);
  jobs_.BreakNextWatches({{4, kUnavailable}});
  Seen seen;
  const auto callback = [&](const JobEvent& event) {
    seen.sequences.push_back(event.sequence());
    if (event.sequence() != 4) return;
    jobs_.ForgetEventsAfter("a", 2);
    // Later by the clock than what was seen, under numbers that were seen.
    for (int i = 0; i < 2; ++i) jobs_.AddEvent("a", NoticeEvent("is written again"));
    jobs_.ForgetEventsAfter("a", 3);
  };
  const auto client = MakeClient();
  absl::Status status = absl::UnknownError("");
  std::thread watcher([&] { status = client->Watch("a", 0, callback); });
  EXPECT_TRUE(jobs_.WaitForWatches(3));  // Broken, out of range, from the beginning.
  jobs_.AddEvent("a", NoticeEvent("of the time of event 4"));
  jobs_.AddEvent("a", StateEvent(SUCCEEDED));
  watcher.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen.sequences, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(JobsClientTest, WatchOfAnUnknownJobIsNotFound) {
  EXPECT_EQ(MakeClient()->Watch("nobody", 0, [](const JobEvent&) {}).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(JobsClientTest, WatchGivesUpWhenTheCoordinatorStaysAway) {
  AddJobWithEvents("a", 1);
  const auto client = MakeClient(absl::Milliseconds(300));
  absl::Status status;
  std::thread watcher([&] { status = client->Watch("a", 0, [](const JobEvent&) {}); });
  EXPECT_TRUE(jobs_.WaitForWatches(1));
  jobs_.Stop();
  watcher.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("WatchJob of a within 300ms"));
}

TEST_F(JobsClientTest, InterruptEndsAWatch) {
  AddJobWithEvents("a", 1);
  const auto client = MakeClient();
  absl::Status status;
  std::thread watcher([&] { status = client->Watch("a", 0, [](const JobEvent&) {}); });
  EXPECT_TRUE(jobs_.WaitForWatches(1));
  client->Interrupt();
  watcher.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST_F(JobsClientTest, InterruptEndsAWaitForTheCoordinatorAndLaterCalls) {
  jobs_.Stop();
  const auto client = MakeClient(absl::Minutes(10));
  absl::Status status;
  std::thread caller([&] { status = client->List().status(); });
  client->Interrupt();
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(client->List().status().code(), absl::StatusCode::kCancelled);
}

TEST(IsLastEventTest, OnlyFinalStatesAre) {
  EXPECT_TRUE(IsLastEvent(StateEvent(SUCCEEDED)));
  EXPECT_TRUE(IsLastEvent(StateEvent(FAILED)));
  EXPECT_TRUE(IsLastEvent(StateEvent(CANCELLED)));
  EXPECT_FALSE(IsLastEvent(StateEvent(RUNNING)));
  EXPECT_FALSE(IsLastEvent(NoticeEvent("x")));
}

}  // namespace
}  // namespace millrace::client
