#include "coordinator/run/runner_inbox.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

EvaluationReport ReportOf(uint64_t worker, uint64_t evaluation_id, absl::StatusCode code) {
  EvaluationReport report{worker, {}};
  report.result.set_evaluation_id(evaluation_id);
  report.result.set_code(static_cast<int>(code));
  return report;
}

// As "2: 7 OK".
std::vector<std::string> TakeAll(RunnerInbox& inbox) {
  std::vector<std::string> lines;
  for (const EvaluationReport& report : inbox.TakeEvaluations()) {
    const auto code = static_cast<absl::StatusCode>(report.result.code());
    lines.push_back(absl::StrCat(report.worker, ": ", report.result.evaluation_id(), " ",
                                 absl::StatusCodeToString(code)));
  }
  return lines;
}

TEST(RunnerInboxTest, ResultsOfAnEvaluationAreTakenOnceBeforeErrors) {
  SimulatedClock clock;
  RunnerInbox inbox(&clock);
  inbox.SetEvaluation(ReportOf(1, 7, absl::StatusCode::kUnavailable));
  inbox.SetEvaluation(ReportOf(2, 7, absl::StatusCode::kOk));
  inbox.SetEvaluation(ReportOf(2, 7, absl::StatusCode::kUnavailable));
  EXPECT_THAT(TakeAll(inbox), ElementsAre("2: 7 OK", "1: 7 UNAVAILABLE"));
  EXPECT_THAT(TakeAll(inbox), IsEmpty());
}

// It was lost, and the job waited for a worker that had answered.
TEST(RunnerInboxTest, ErrorOfOneWorkerDoesNotReplaceThatOfAnother) {
  SimulatedClock clock;
  RunnerInbox inbox(&clock);
  inbox.SetEvaluation(ReportOf(2, 7, absl::StatusCode::kUnavailable));
  inbox.SetEvaluation(ReportOf(1, 7, absl::StatusCode::kAborted));
  EXPECT_THAT(TakeAll(inbox), ElementsAre("1: 7 ABORTED", "2: 7 UNAVAILABLE"));
}

TEST(RunnerInboxTest, ErrorReplacesTheResultOfAnEarlierEvaluation) {
  SimulatedClock clock;
  RunnerInbox inbox(&clock);
  inbox.SetEvaluation(ReportOf(1, 7, absl::StatusCode::kOk));
  inbox.SetEvaluation(ReportOf(1, 8, absl::StatusCode::kAborted));
  EXPECT_THAT(TakeAll(inbox), ElementsAre("1: 8 ABORTED"));
}

}  // namespace
}  // namespace millrace::coordinator
