#include "client/commands/job_text.h"

#include "client/commands/table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(JobText(Running(), absl::UTCTimeZone()),
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
      "steps_run_again": 0, "metrics": {"loss": 0.25, "eval_accuracy": 0.5}, "warnings": [],
      "submitted": "2020-09-13T12:26:40+00:00", "started": "2020-09-13T12:26:41+00:00"})"));
}

TEST(JobTextTest, WhatDoesNotWorkAndWhatWasRunAgainAreTold) {
  JobStatus status = Running();
  status.add_warnings("ps-1 cannot write cuts");
  status.set_steps_run_again(1500);
  const std::string text = JobText(status, absl::UTCTimeZone());
  EXPECT_THAT(text, HasSubstr("warning    ps-1 cannot write cuts\n"));
  EXPECT_THAT(text, HasSubstr("run again  1,500\n"));
  const auto json = nlohmann::json::parse(JobJson(status));
  EXPECT_EQ(json["warnings"], nlohmann::json::parse(R"(["ps-1 cannot write cuts"])"));
  EXPECT_EQ(json["steps_run_again"], 1500);
}

TEST(JobTextTest, TableMarksAJobOfWhichSomethingDoesNotWork) {
  JobStatus status = Running();
  status.add_warnings("ps-1 cannot write cuts");
  EXPECT_THAT(JobTable({status}, absl::UTCTimeZone()), HasSubstr("RUNNING (!)"));
}

TEST(JobTextTest, EscapesOfOthersAreNotObeyed) {
  JobStatus status;
  for (std::string* field : {status.mutable_job_id(), status.mutable_message(),
                             status.mutable_spec()->mutable_name(), status.add_warnings()}) {
    *field = "\x1b[2J";
  }
  EXPECT_EQ(JobText(status, absl::UTCTimeZone()).find('\x1b'), std::string::npos);
  EXPECT_EQ(JobTable({status}, absl::UTCTimeZone()).find('\x1b'), std::string::npos);
  EXPECT_EQ(DescribeState(status).find('\x1b'), std::string::npos);
}

TEST(JobTextTest, TableHasALineForEachJob) {
  JobStatus other;
  other.set_job_id("a-longer-name-2");
  other.set_state(PENDING);
  EXPECT_EQ(JobTable({other, Running()}, absl::UTCTimeZone()),
            "JOB              NAME   STATE    STEPS           SUBMITTED\n"
            "a-longer-name-2         PENDING  0\n"
            "mnist-1          mnist  RUNNING  1,200 of 2,740  2020-09-13 12:26:40\n");
}

TEST(TableTest, ColumnsWithoutTextAreLeftOut) {
  Table table({"A", "B", "C"});
  table.AddRow({"1", "", "333"});
  table.AddRow({"22", "", "3"});
  EXPECT_EQ(table.ToString(), "A   C\n1   333\n22  3\n");
}

TEST(TableTest, AnEmptyTableIsItsHeads) {
  EXPECT_EQ(JobTable({}, absl::UTCTimeZone()), "JOB  NAME  STATE  STEPS  SUBMITTED\n");
}

}  // namespace
}  // namespace millrace::client
