#include "client/progress/plain_lines.h"

#include <sstream>
#include <string>

#include "client/testing/fake_jobs.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::millrace::testing::EvaluatedEvent;
using ::millrace::testing::NoticeEvent;
using ::millrace::testing::ProgressEvent;
using ::millrace::testing::StateEvent;

class PlainLinesTest : public ::testing::Test {
 protected:
  // What is written for an event of that second.
  std::string Lines(JobEvent event, int second) {
    out_.str("");
    event.mutable_time()->set_seconds(1000 + second);
    view_.OnEvent(event);
    return out_.str();
  }

  std::ostringstream out_;
  PlainLines view_{&out_};
};

TEST_F(PlainLinesTest, ProgressIsWrittenEveryFiveSeconds) {
  EXPECT_EQ(Lines(ProgressEvent(1, 1000, 640, {{"loss", 2.3}}), 0),
            "step 1/1,000 (0.1%)  640 examples/s  loss 2.3  2 workers\n");
  EXPECT_EQ(Lines(ProgressEvent(11, 1000, 640), 1), "");
  EXPECT_EQ(Lines(ProgressEvent(41, 1000, 640), 4), "");
  EXPECT_EQ(Lines(ProgressEvent(50, 1000, 640, {{"accuracy", 0.5}}, 1), 5),
            "step 50/1,000 (5.0%)  640 examples/s  accuracy 0.5  1 worker  1:36 left\n");
  EXPECT_EQ(Lines(ProgressEvent(60, 1000, 640), 6), "");
}

TEST_F(PlainLinesTest, ProgressIsWrittenEveryTwentiethOfTheJob) {
  EXPECT_NE(Lines(ProgressEvent(1, 100, 640), 0), "");
  EXPECT_EQ(Lines(ProgressEvent(5, 100, 640), 0), "");
  EXPECT_NE(Lines(ProgressEvent(6, 100, 640), 0), "");
  EXPECT_EQ(Lines(ProgressEvent(10, 100, 640), 1), "");
  EXPECT_NE(Lines(ProgressEvent(11, 100, 640), 1), "");
}

TEST_F(PlainLinesTest, AJobThatSteppedBackIsShownAgain) {
  EXPECT_NE(Lines(ProgressEvent(90, 100, 640), 0), "");
  EXPECT_EQ(Lines(ProgressEvent(50, 100, 640), 1), "");
  EXPECT_NE(Lines(ProgressEvent(55, 100, 640), 2), "");
}

TEST_F(PlainLinesTest, OtherEventsAreWrittenAtOnce) {
  EXPECT_EQ(Lines(StateEvent(RUNNING), 0), "RUNNING\n");
  EXPECT_EQ(Lines(NoticeEvent("worker-1 came"), 0), "worker-1 came\n");
  EXPECT_EQ(Lines(EvaluatedEvent(5, {{"eval_loss", 1}}), 0),
            "step 5: eval_loss 1 (100 examples)\n");
  JobEvent evaluated = EvaluatedEvent(5, {{"eval_loss", 1}});
  evaluated.mutable_evaluated()->add_confusion_matrices()->set_classes(31);
  EXPECT_EQ(Lines(evaluated, 0),
            "step 5: eval_loss 1 (100 examples)\n"
            "confusion matrix: 31 classes; --json has the numbers\n");
}

TEST_F(PlainLinesTest, BeginNotesAndOutcome) {
  view_.Begin("job-1");
  view_.Note("waits");
  JobOutcome outcome;
  outcome.job_id = "job-1";
  outcome.state = CANCELLED;
  view_.Finish(outcome);
  EXPECT_EQ(out_.str(),
            "job job-1\nwaits\nCANCELLED: job job-1\n  steps      0\n  time       0:00\n");
}

}  // namespace
}  // namespace millrace::client
