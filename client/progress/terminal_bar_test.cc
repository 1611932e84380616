#include "client/progress/terminal_bar.h"

#include <sstream>
#include <string>

#include "client/testing/fake_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::EvaluatedEvent;
using ::millrace::testing::NoticeEvent;
using ::millrace::testing::ProgressEvent;
using ::millrace::testing::StateEvent;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Progress Half() {
  return ProgressEvent(500, 1000, 12345, {{"loss", 0.25}, {"accuracy", 0.9}}).progress();
}

StepRate TenASecond() {
  StepRate rate;
  rate.Add(absl::UnixEpoch(), 400);
  rate.Add(absl::UnixEpoch() + absl::Seconds(10), 500);
  return rate;
}

TEST(BarLineTest, WideTerminalShowsEverything) {
  EXPECT_EQ(BarLine(Half(), TenASecond(), 132),
            " 50% [==============>             ]  500/1,000  12.3k examples/s  loss 0.25  "
            "accuracy 0.9  2 workers  0:50 left");
}

TEST(BarLineTest, NarrowerTerminalsLoseWhatMattersLess) {
  EXPECT_EQ(BarLine(Half(), TenASecond(), 80),
            " 50% [===>   ]  500/1,000  12.3k examples/s  loss 0.25  accuracy 0.9  0:50 left");
  EXPECT_EQ(BarLine(Half(), TenASecond(), 60),
            " 50%  500/1,000  12.3k examples/s  loss 0.25  0:50 left");
  EXPECT_EQ(BarLine(Half(), TenASecond(), 50), " 50% [====>    ]  500/1,000  loss 0.25  0:50 left");
  EXPECT_EQ(BarLine(Half(), TenASecond(), 20), " 50%  500/1,000");
  EXPECT_EQ(BarLine(Half(), TenASecond(), 10), " 50%");
  EXPECT_EQ(BarLine(Half(), TenASecond(), 3), " 5");
  EXPECT_EQ(BarLine(Half(), TenASecond(), 0), "");
}

TEST(BarLineTest, NeverReachesTheLastColumn) {
  for (int width = 1; width < 200; ++width) {
    EXPECT_LT(BarLine(Half(), TenASecond(), width).size(), static_cast<size_t>(width)) << width;
  }
}

TEST(BarLineTest, FullAndEmptyBars) {
  EXPECT_THAT(BarLine(ProgressEvent(0, 10, 0).progress(), StepRate(), 132),
              StartsWith("  0% [>                           ]"));
  EXPECT_THAT(BarLine(ProgressEvent(10, 10, 0).progress(), StepRate(), 132),
              StartsWith("100% [============================]"));
  EXPECT_THAT(BarLine(ProgressEvent(0, 0, 0).progress(), StepRate(), 132), StartsWith("  0% ["));
}

class TerminalBarTest : public ::testing::Test {
 protected:
  // What reaches the terminal for an event.
  std::string Written(const JobEvent& event) {
    out_.str("");
    view_.OnEvent(event);
    return out_.str();
  }

  SimulatedClock clock_;
  std::ostringstream out_;
  int width_ = 40;
  TerminalBar view_{{.out = &out_, .width = [this] { return width_; }, .clock = &clock_}};
};

TEST_F(TerminalBarTest, IsDrawnOverItself) {
  EXPECT_EQ(Written(ProgressEvent(1, 10, 5)), "\r\x1b[K 10%  1/10  5 examples/s  2 workers");
  clock_.Advance(absl::Seconds(1));
  width_ = 30;
  EXPECT_EQ(Written(ProgressEvent(2, 10, 5)), "\r\x1b[K 20%  2/10  5 examples/s");
}

TEST_F(TerminalBarTest, IsDrawnAtMostTenTimesASecond) {
  EXPECT_NE(Written(ProgressEvent(1, 10, 5)), "");
  clock_.Advance(absl::Milliseconds(99));
  EXPECT_EQ(Written(ProgressEvent(2, 10, 5)), "");
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_THAT(Written(ProgressEvent(3, 10, 5)), HasSubstr("3/10"));
}

TEST_F(TerminalBarTest, IsClearedForLinesAndDrawnAgainBelow) {
  EXPECT_EQ(Written(StateEvent(RUNNING)), "RUNNING\n");
  Written(ProgressEvent(1, 10, 5));
  EXPECT_EQ(Written(NoticeEvent("worker-1 is gone")),
            "\r\x1b[Kworker-1 is gone\n\r\x1b[K 10%  1/10  5 examples/s  2 workers");
  EXPECT_THAT(Written(EvaluatedEvent(1, {{"eval_loss", 2}})),
              StartsWith("\r\x1b[Kstep 1: eval_loss 2 (100 examples)\n\r\x1b[K"));
}

TEST_F(TerminalBarTest, OutcomeTakesItsPlace) {
  Written(ProgressEvent(10, 10, 5));
  out_.str("");
  JobOutcome outcome;
  outcome.job_id = "job-1";
  outcome.state = SUCCEEDED;
  view_.Finish(outcome);
  EXPECT_THAT(out_.str(), StartsWith("\r\x1b[KSUCCEEDED: job job-1\n"));
  EXPECT_THAT(out_.str(), EndsWith("0:00\n"));
}

TEST(TerminalBarEndTest, LeavesTheCursorOnANewLine) {
  std::ostringstream out;
  {
    TerminalBar view({.out = &out, .width = [] { return 40; }});
    view.OnEvent(ProgressEvent(1, 10, 5));
  }
  EXPECT_THAT(out.str(), EndsWith("workers\n"));
}

}  // namespace
}  // namespace millrace::client
