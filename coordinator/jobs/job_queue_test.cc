#include "coordinator/jobs/job_queue.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobQueueTest, FirstInFirstOutAndNoMoreThanMayRun) {
  JobQueue queue({.running = 2});
  for (uint64_t number : {5, 3, 4}) queue.Add(number, /*has_started=*/false, 1);
  EXPECT_EQ(queue.TakeNext(), 3u);
  EXPECT_EQ(queue.TakeNext(), 4u);
  EXPECT_FALSE(queue.TakeNext());
  EXPECT_THAT(queue.Waiting(), ElementsAre(5));
  queue.EndIf([](uint64_t number) { return number == 4; });
  EXPECT_EQ(queue.TakeNext(), 5u);
  EXPECT_THAT(queue.running(), ElementsAre(3, 5));
}

TEST(JobQueueTest, JobsThatHadStartedComeFirstAfterARestart) {
  JobQueue queue({.running = 1});
  queue.Add(1, /*has_started=*/false, 1);
  queue.Add(2, /*has_started=*/true, 1);
  EXPECT_EQ(queue.TakeNext(), 2u);
}

TEST(JobQueueTest, WaitingJobCanBeTakenOutToBeEnded) {
  JobQueue queue({.running = 1});
  for (uint64_t number : {1, 2, 3}) queue.Add(number, /*has_started=*/false, 1);
  EXPECT_EQ(queue.TakeNext(), 1u);
  EXPECT_TRUE(queue.TakeOut(2));
  EXPECT_FALSE(queue.TakeOut(2));
  EXPECT_FALSE(queue.TakeOut(1)) << "it runs";
  EXPECT_THAT(queue.Waiting(), ElementsAre(3));
  queue.EndIf([](uint64_t number) { return number <= 2; });
  EXPECT_EQ(queue.TakeNext(), 3u);
}

TEST(JobQueueTest, NoMoreThanMayWaitAreTaken) {
  JobQueue queue({.running = 1, .pending = 2});
  ASSERT_TRUE(queue.Reserve(1).ok());
  queue.Add(1, /*has_started=*/false, 1);
  const absl::Status refused = queue.Reserve(1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--max_pending_jobs"));
  queue.Release(1);
  EXPECT_TRUE(queue.Reserve(1).ok());
}

TEST(JobQueueTest, SpecsOfWaitingJobsAreBoundedInBytes) {
  JobQueue queue({.running = 1, .pending = 9, .pending_bytes = 10});
  EXPECT_TRUE(queue.Reserve(11).ok()) << "one is always taken";
  queue.Release(11);
  queue.Add(1, /*has_started=*/false, 8);
  EXPECT_EQ(queue.Reserve(3).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue.TakeNext(), 1u);
  EXPECT_TRUE(queue.Reserve(3).ok());
  EXPECT_THAT(queue.Waiting(), IsEmpty());
}

}  // namespace
}  // namespace millrace::coordinator
