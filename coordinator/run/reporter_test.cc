#include "coordinator/run/reporter.h"

#include <map>
#include <memory>
#include <string>

#include "coordinator/journal/new_journal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

// A server that was gone for a second ended the job, after a long wait for another one.
TEST(ReporterTest, RunningJobWaitsForEachMissingMemberByItself) {
  SimulatedClock clock;
  const std::unique_ptr<Journal> journal = OpenNewJournal();
  Job job(PendingJob(), /*last_event=*/0, journal.get(), &clock);
  ASSERT_TRUE(job.SetState(RUNNING, "").ok());
  RunnerEnvironment environment;
  environment.member_timeout = absl::Minutes(10);
  environment.clock = &clock;
  RunnerInbox inbox(&clock);
  Reporter reporter(&job, &environment, &inbox);
  const auto wait_for = [&](const std::map<std::string, std::string>& missing) {
    return reporter.WaitForMembers(missing, absl::ZeroDuration());
  };
  EXPECT_TRUE(reporter.Wait("the shards", absl::ZeroDuration()).ok());
  clock.Advance(absl::Hours(1));
  EXPECT_TRUE(wait_for({{"ps-0", "ps-0, gone"}}).ok());
  clock.Advance(absl::Minutes(9));
  EXPECT_TRUE(wait_for({{"ps-0", "ps-0, gone"}, {"ps-1", "ps-1, gone"}}).ok());
  clock.Advance(absl::Minutes(9));
  EXPECT_TRUE(wait_for({{"ps-1", "ps-1, gone"}}).ok());
  EXPECT_EQ(job.Status().message(), "waits for ps-1, gone for 540 s");
  reporter.NobodyIsMissing();
  EXPECT_TRUE(wait_for({{"ps-1", "ps-1, gone"}}).ok());
  clock.Advance(absl::Minutes(10));
  const absl::Status status = wait_for({{"ps-1", "ps-1, gone"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("waited 10m for ps-1, gone"));
}

}  // namespace
}  // namespace millrace::coordinator
