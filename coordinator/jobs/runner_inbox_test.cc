#include "coordinator/jobs/runner_inbox.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

// Whatever members said faster than the runner looked was once kept.
TEST(RunnerInboxTest, NoticesThatAreTooManyAreCounted) {
  SimulatedClock clock;
  RunnerInbox inbox(&clock);
  for (int i = 0; i < 1000; ++i) inbox.AddNotice(absl::StrCat("notice ", i));
  const std::vector<std::string> notices = inbox.TakeNotices();
  ASSERT_EQ(notices.size(), 65u);
  EXPECT_EQ(notices[63], "notice 63");
  EXPECT_EQ(notices[64], "and 936 more, which are left out");
  EXPECT_TRUE(inbox.TakeNotices().empty());
  inbox.AddNotice("another");
  EXPECT_EQ(inbox.TakeNotices().size(), 1u);
}

TEST(RunnerInboxTest, NewestResultOfAnEvaluationIsTakenOnce) {
  SimulatedClock clock;
  RunnerInbox inbox(&clock);
  for (uint64_t worker = 1; worker <= 3; ++worker) inbox.SetEvaluation({worker, {}});
  EvaluationResult error;
  error.set_code(14);
  inbox.SetEvaluation({4, error});
  const auto report = inbox.TakeEvaluation();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->worker, 3u);
  EXPECT_FALSE(inbox.TakeEvaluation());
}

}  // namespace
}  // namespace millrace::coordinator
