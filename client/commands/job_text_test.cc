#include "client/commands/job_text.h"

#include "client/commands/table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1600000100);

JobStatus Running() {
  JobStatus status;
  status.set_job_id("mnist-1");
  status.mutable_spec()->set_name("mnist");
  status.set_state(RUNNING);
  status.set_message("waits for ps-1 for 12 s");
  status.set_step(1200);
  status.set_total_steps(2740);
  (*status.mutable_metrics())["loss"] = 0.25;
  (*status.mutable_metrics())["eval_accuracy"] = 0.5;
  status.mutable_submitted()->set_seconds(1600000000);
  status.mutable_started()->set_seconds(1600000001);
  return status;
}

TEST(JobTextTest, TextHasWhatIsKnown) {
  EXPECT_EQ(JobText(Running(), absl::UTCTimeZone(), kNow),
            "job        mnist-1\n"
            "name       mnist\n"
            "state      RUNNING\n"
            "message    waits for ps-1 for 12 s\n"
            "steps      1,200 of 2,740\n"
            "metrics    loss 0.25  eval_accuracy 0.5\n"
            "submitted  2020-09-13 12:26:40\n"
            "started    2020-09-13 12:26:41\n");
}

TEST(JobTextTest, JsonIsOneObjectOnALine) {
  const std::string json = JobJson(Running());
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(json), nlohmann::json::parse(R"({
      "job_id": "mnist-1", "name": "mnist", "state": "RUNNING",
      "message": "waits for ps-1 for 12 s", "step": 1200, "total_steps": 2740,
      "steps_run_again": 0, "more_may_have_run_again": false, "metrics": {"loss": 0.25, "eval_accuracy": 0.5}, "warnings": [],
      "submitted": "2020-09-13T12:26:40+00:00", "started": "2020-09-13T12:26:41+00:00"})"));
}

TEST(JobTextTest, WhatEvaluationsHaveComeToIsTold) {
  JobStatus status = Running();
  status.mutable_spec()->mutable_evaluation()->mutable_early_stopping()->set_patience(3);
  status.mutable_stopping()->set_metric("eval_loss");
  status.mutable_stopping()->set_best(0.25);
  status.mutable_stopping()->set_step(1000);
  status.mutable_stopping()->set_evaluations_since(2);
  status.mutable_best()->set_metric("eval_accuracy");
  status.mutable_best()->set_value(0.5);
  status.mutable_best()->set_step(900);
  status.mutable_best()->mutable_checkpoint()->set_number(4);
  const std::string text = JobText(status, absl::UTCTimeZone(), kNow);
  EXPECT_THAT(text, HasSubstr("stops      after 3 evaluations that are no better than eval_loss "
                              "0.25 at step 1,000; so far 2\n"));
  EXPECT_THAT(text, HasSubstr("best       eval_accuracy 0.5 at step 900, checkpoint 000004\n"));
  const auto json = nlohmann::json::parse(JobJson(status));
  EXPECT_EQ(json["stopping"]["evaluations_since"], 2);
  EXPECT_EQ(json["best"]["checkpoint"], 4);
  EXPECT_EQ(json.count("stopped_early"), 0u);
  status.mutable_stopped_early()->set_step(1200);
  status.mutable_stopped_early()->set_reason("why");
  EXPECT_THAT(JobText(status, absl::UTCTimeZone(), kNow), ::testing::Not(HasSubstr("stops  ")));
  EXPECT_EQ(nlohmann::json::parse(JobJson(status))["stopped_early"]["reason"], "why");
}

TEST(JobTextTest, WhatDoesNotWorkAndWhatWasRunAgainAreTold) {
  JobStatus status = Running();
  status.add_warnings("ps-1 cannot write cuts");
  status.set_steps_run_again(1500);
  const std::string text = JobText(status, absl::UTCTimeZone(), kNow);
  EXPECT_THAT(text, HasSubstr("warning    ps-1 cannot write cuts\n"));
  EXPECT_THAT(text, HasSubstr("run again  1,500\n"));
  const auto json = nlohmann::json::parse(JobJson(status));
  EXPECT_EQ(json["warnings"], nlohmann::json::parse(R"(["ps-1 cannot write cuts"])"));
  EXPECT_EQ(json["steps_run_again"], 1500);
  EXPECT_EQ(json["more_may_have_run_again"], false);
}

TEST(JobTextTest, WhereNobodySawHowManyStepsWereLostThatIsTold) {
  JobStatus status = Running();
  status.set_more_may_have_run_again(true);
  EXPECT_THAT(JobText(status, absl::UTCTimeZone(), kNow),
              HasSubstr("run again  nobody knows how many\n"));
  status.set_steps_run_again(1500);
  EXPECT_THAT(JobText(status, absl::UTCTimeZone(), kNow), HasSubstr("run again  at least 1,500\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(status))["more_may_have_run_again"], true);
}

TEST(JobTextTest, TableMarksAJobOfWhichSomethingDoesNotWork) {
  JobStatus status = Running();
  status.add_warnings("ps-1 cannot write cuts");
  EXPECT_THAT(JobTable({status}, absl::UTCTimeZone(), kNow), HasSubstr("RUNNING (!)"));
}

TEST(JobTextTest, EscapesOfOthersAreNotObeyed) {
  JobStatus status;
  for (std::string* field : {status.mutable_job_id(), status.mutable_message(),
                             status.mutable_spec()->mutable_name(), status.add_warnings()}) {
    *field = "\x1b[2J";
  }
  EXPECT_EQ(JobText(status, absl::UTCTimeZone(), kNow).find('\x1b'), std::string::npos);
  EXPECT_EQ(JobTable({status}, absl::UTCTimeZone(), kNow).find('\x1b'), std::string::npos);
  EXPECT_EQ(DescribeState(status).find('\x1b'), std::string::npos);
}

TEST(JobTextTest, TableHasALineForEachJob) {
  JobStatus other;
  other.set_job_id("a-longer-name-2");
  other.set_state(PENDING);
  EXPECT_EQ(JobTable({other, Running()}, absl::UTCTimeZone(), kNow),
            "JOB              NAME   STATE    STEPS           SUBMITTED\n"
            "a-longer-name-2         PENDING  0\n"
            "mnist-1          mnist  RUNNING  1,200 of 2,740  2020-09-13 12:26:40\n");
}

JobStatus WithCheckpoint() {
  JobStatus status = Running();
  CheckpointInfo& checkpoint = *status.mutable_checkpoint();
  checkpoint.set_directory("/checkpoints");
  checkpoint.set_number(17);
  checkpoint.set_step(1000);
  checkpoint.mutable_written()->set_seconds(1600000088);
  checkpoint.set_bytes(3 << 19);
  return status;
}

TEST(JobTextTest, TheNewestCheckpointAndItsAgeAreTold) {
  const JobStatus status = WithCheckpoint();
  EXPECT_THAT(JobText(status, absl::UTCTimeZone(), kNow),
              HasSubstr("checkpoint 000017 at step 1,000, 12 s ago, 1.5 MiB, in /checkpoints\n"));
  EXPECT_THAT(JobTable({status}, absl::UTCTimeZone(), kNow),
              HasSubstr("2020-09-13 12:26:40  000017 at step 1,000, 12 s ago\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(status))["checkpoint"], nlohmann::json::parse(R"({
      "directory": "/checkpoints", "path": "/checkpoints/000017", "number": 17, "step": 1000,
      "bytes": 1572864, "written": "2020-09-13T12:28:08+00:00"})"));
}

TEST(JobTextTest, WhatTheTimeWentIntoIsToldInLinesThatAddUp) {
  JobStatus status = Running();
  TimeSpent& spent = *status.mutable_time_spent();
  spent.mutable_wall()->set_seconds(200);
  spent.mutable_training()->set_seconds(150);
  spent.mutable_recovering()->set_seconds(40);
  WaitedFor& waited = *spent.add_waiting();
  waited.set_whom("worker-1");
  waited.mutable_time()->set_seconds(10);
  spent.set_goodput(0.75);
  EXPECT_THAT(JobText(status, absl::UTCTimeZone(), kNow),
              HasSubstr("\n"
                        "SPENT ON              TIME  SHARE\n"
                        "training              2:30  75.0%\n"
                        "recovering            0:40  20.0%\n"
                        "waiting for worker-1  0:10  5.0%\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(status))["time_spent"], nlohmann::json::parse(R"({
      "wall": 200.0, "training": 150.0, "running_again": 0.0, "recovering": 40.0,
      "evaluating": 0.0, "checkpointing": 0.0, "waiting": {"worker-1": 10.0},
      "goodput": 0.75})"));
}

TEST(TableTest, ColumnsWithoutTextAreLeftOut) {
  Table table({"A", "B", "C"});
  table.AddRow({"1", "", "333"});
  table.AddRow({"22", "", "3"});
  EXPECT_EQ(table.ToString(), "A   C\n1   333\n22  3\n");
}

TEST(TableTest, AnEmptyTableIsItsHeads) {
  EXPECT_EQ(JobTable({}, absl::UTCTimeZone(), kNow),
            "JOB  NAME  STATE  STEPS  SUBMITTED  CHECKPOINT\n");
}

}  // namespace
}  // namespace millrace::client
