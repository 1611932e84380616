#include "client/progress/json_lines.h"

#include <cmath>
#include <sstream>
#include <string>

#include "client/testing/fake_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::testing::EvaluatedEvent;
using ::millrace::testing::NoticeEvent;
using ::millrace::testing::ProgressEvent;
using ::millrace::testing::StateEvent;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class JsonLinesTest : public ::testing::Test {
 protected:
  JsonLinesTest() {
    view_.Begin("job-1");
    EXPECT_EQ(Json::parse(out_.str()), Json({{"event", "begin"}, {"job_id", "job-1"}}));
  }

  // The object that is written for an event.
  Json Written(JobEvent event) {
    event.set_sequence(7);
    event.mutable_time()->set_seconds(1600000000);
    event.mutable_time()->set_nanos(500000000);
    out_.str("");
    view_.OnEvent(event);
    EXPECT_EQ(out_.str().find('\n'), out_.str().size() - 1);
    return Json::parse(out_.str());
  }

  std::ostringstream out_;
  std::ostringstream people_;
  JsonLines view_{&out_, &people_};
};

TEST_F(JsonLinesTest, ConfusionMatricesAreListsOfRows) {
  JobEvent event = EvaluatedEvent(3, {}, 4);
  ConfusionMatrix* matrix = event.mutable_evaluated()->add_confusion_matrices();
  matrix->set_classes(2);
  for (const uint64_t count : {1, 0, 2, 1}) matrix->add_counts(count);
  EXPECT_EQ(Written(event)["confusion_matrices"],
            Json::parse(R"([{"output": "", "counts": [[1, 0], [2, 1]]}])"));
}

TEST_F(JsonLinesTest, EveryEventIsAnObjectOnALine) {
  EXPECT_EQ(Written(ProgressEvent(3, 10, 640.5, {{"loss", 2.5}})),
            Json::parse(R"({"event": "progress", "job_id": "job-1", "sequence": 7,
                            "time": "2020-09-13T12:26:40.5+00:00", "step": 3, "total_steps": 10,
                            "examples_per_second": 640.5, "workers": 2,
                            "metrics": {"loss": 2.5}})"));
  EXPECT_EQ(Written(EvaluatedEvent(3, {{"eval_auc", 0.5}}, 9)),
            Json::parse(R"({"event": "evaluated", "job_id": "job-1", "sequence": 7,
                            "time": "2020-09-13T12:26:40.5+00:00", "step": 3, "examples": 9,
                            "metrics": {"eval_auc": 0.5}})"));
  EXPECT_EQ(Written(NoticeEvent("\"worker\"\n")),
            Json::parse(R"({"event": "notice", "job_id": "job-1", "sequence": 7,
                            "time": "2020-09-13T12:26:40.5+00:00", "message": "\"worker\"\n"})"));
  EXPECT_EQ(Written(StateEvent(PENDING, 0, {}, "waits")),
            Json::parse(R"({"event": "state", "job_id": "job-1", "sequence": 7,
                            "time": "2020-09-13T12:26:40.5+00:00", "state": "PENDING",
                            "message": "waits", "step": 0, "metrics": {}})"));
}

TEST_F(JsonLinesTest, CheckpointsHaveTheirNumbers) {
  JobEvent event;
  CheckpointEnded& checkpoint = *event.mutable_checkpoint_ended();
  checkpoint.set_number(17);
  checkpoint.set_cause("every 1000 steps");
  checkpoint.set_step(7000);
  checkpoint.set_exact(true);
  checkpoint.set_bytes(1000);
  checkpoint.set_bytes_written(100);
  checkpoint.mutable_took()->set_seconds(4);
  checkpoint.mutable_held_up()->set_nanos(500000000);
  checkpoint.set_extra_memory(10);
  checkpoint.set_path("/checkpoints/000017");
  EXPECT_EQ(Written(event), Json::parse(R"({"event": "checkpoint", "job_id": "job-1",
      "sequence": 7, "time": "2020-09-13T12:26:40.5+00:00", "number": 17,
      "cause": "every 1000 steps", "step": 7000, "exact": true, "error": "",
      "path": "/checkpoints/000017", "bytes": 1000, "bytes_written": 100, "seconds": 4.0,
      "held_up_seconds": 0.5, "extra_memory": 10})"));
}

TEST_F(JsonLinesTest, TheLastLineIsTheFinalState) {
  out_.str("");
  view_.OnEvent(StateEvent(SUCCEEDED, 10));
  JobOutcome outcome;
  outcome.job_id = "job-1";
  outcome.state = SUCCEEDED;
  outcome.step = 10;
  outcome.total_steps = 10;
  outcome.metrics = {{"eval_accuracy", 0.75}};
  outcome.running = absl::Milliseconds(1500);
  outcome.warnings = {"the last checkpoint is missing"};
  outcome.export_file = "/tmp/out.safetensors";
  view_.Finish(outcome);
  EXPECT_EQ(Json::parse(out_.str()),
            Json::parse(R"({"event": "final", "job_id": "job-1", "state": "SUCCEEDED",
                            "message": "", "step": 10, "total_steps": 10, "seconds": 1.5,
                            "metrics": {"eval_accuracy": 0.75},
                            "warnings": ["the last checkpoint is missing"],
                            "export": "/tmp/out.safetensors"})"));
  EXPECT_THAT(people_.str(), HasSubstr("SUCCEEDED: job job-1"));
}

TEST_F(JsonLinesTest, NotesArePeoples) {
  out_.str("");
  view_.Note("waits for the coordinator");
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(people_.str(), "waits for the coordinator\n");
}

TEST_F(JsonLinesTest, WhatJsonCannotSayIsReplaced) {
  EXPECT_EQ(Written(ProgressEvent(1, 2, 3, {{"loss", std::nan("")}}))["metrics"]["loss"],
            Json(nullptr));
  // Bytes that are not UTF-8 once ended the program.
  EXPECT_THAT(Written(NoticeEvent("a\xff"))["message"].get<std::string>(), HasSubstr("a"));
}

}  // namespace
}  // namespace millrace::client
