#include "client/commands/job_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/commands/best.h"
#include "client/commands/devices_text.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "client/progress/step_times.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/evaluation_spec.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

constexpr char kTimeFormat[] = "%Y-%m-%d %H:%M:%S";

std::string TimeText(const google::protobuf::Timestamp& time, absl::TimeZone zone) {
  return absl::FormatTime(kTimeFormat, FromTimestamp(time), zone);
}

std::string Steps(const JobStatus& status) {
  if (status.total_steps() == 0) return FormatCount(status.step());
  return absl::StrCat(FormatCount(status.step()), " of ", FormatCount(status.total_steps()));
}

// How long the job has waited for a better evaluation.
std::string DescribeStopping(const JobStatus& status) {
  if (!status.has_stopping() || status.has_stopped_early()) return "";
  const MetricStanding& standing = status.stopping();
  return absl::StrCat("after ", StoppingPatience(status.spec().evaluation().early_stopping()),
                      " evaluations that are no better than ", standing.metric(), " ",
                      FormatMetric(standing.best()), " at step ", FormatCount(standing.step()),
                      "; so far ", FormatCount(standing.evaluations_since()));
}

nlohmann::ordered_json StoppingJson(const MetricStanding& standing) {
  return {{"metric", standing.metric()},
          {"best", standing.best()},
          {"step", standing.step()},
          {"evaluations_since", standing.evaluations_since()}};
}

// Lines that add up to the time since the job's start.
std::string TimeSpentTable(const TimeSpent& spent) {
  const absl::Duration wall = FromProto(spent.wall());
  if (wall <= absl::ZeroDuration()) return "";
  Table table({"SPENT ON", "TIME", "SHARE"});
  const auto add = [&](const std::string& what, absl::Duration time) {
    if (time <= absl::ZeroDuration()) return;
    table.AddRow({what, FormatElapsed(time),
                  absl::StrFormat("%.1f%%", 100 * absl::FDivDuration(time, wall))});
  };
  add("training", FromProto(spent.training()));
  add("running steps again", FromProto(spent.running_again()));
  add("recovering", FromProto(spent.recovering()));
  add("evaluating", FromProto(spent.evaluating()));
  add("checkpointing", FromProto(spent.checkpointing()));
  for (const WaitedFor& waited : spent.waiting()) {
    add(absl::StrCat("waiting for ", PrintableName(waited.whom())), FromProto(waited.time()));
  }
  return absl::StrCat("\n", table.ToString());
}

// How many steps were run again. Empty: none was.
std::string RunAgain(const JobStatus& status) {
  if (status.steps_run_again() == 0) {
    return status.more_may_have_run_again() ? "nobody knows how many" : "";
  }
  return absl::StrCat(status.more_may_have_run_again() ? "at least " : "",
                      FormatCount(status.steps_run_again()));
}

}  // namespace

nlohmann::ordered_json CheckpointJson(const CheckpointInfo& checkpoint) {
  return {{"directory", checkpoint.directory()},
          {"path", CheckpointPath(checkpoint.directory(), checkpoint.number())},
          {"number", checkpoint.number()},
          {"step", checkpoint.step()},
          {"bytes", checkpoint.bytes()},
          {"written", absl::FormatTime(absl::RFC3339_full, FromTimestamp(checkpoint.written()),
                                       absl::UTCTimeZone())}};
}

std::string DescribeCheckpoint(const CheckpointInfo& checkpoint, absl::Time now) {
  return absl::StrCat(CheckpointFolder(checkpoint.number()), " at step ",
                      FormatCount(checkpoint.step()), ", ",
                      FormatAge(now - FromTimestamp(checkpoint.written())), " ago");
}

std::string JobJson(const JobStatus& status, const JobExplanation* explanation) {
  nlohmann::ordered_json json = {{"job_id", status.job_id()},
                                 {"name", status.spec().name()},
                                 {"state", JobState_Name(status.state())},
                                 {"message", status.message()},
                                 {"step", status.step()},
                                 {"total_steps", status.total_steps()},
                                 {"steps_run_again", status.steps_run_again()},
                                 {"more_may_have_run_again", status.more_may_have_run_again()},
                                 {"metrics", ToMetrics(status.metrics())},
                                 {"warnings", nlohmann::json::array()}};
  for (const std::string& warning : status.warnings()) json["warnings"].push_back(warning);
  const auto add_time = [&json](const char* name, const google::protobuf::Timestamp& time) {
    json[name] = absl::FormatTime(absl::RFC3339_full, FromTimestamp(time), absl::UTCTimeZone());
  };
  if (status.has_submitted()) add_time("submitted", status.submitted());
  if (status.has_started()) add_time("started", status.started());
  if (status.has_ended()) add_time("ended", status.ended());
  if (status.has_checkpoint()) json["checkpoint"] = CheckpointJson(status.checkpoint());
  if (status.has_stopping()) json["stopping"] = StoppingJson(status.stopping());
  if (status.has_stopped_early()) {
    json["stopped_early"] = {{"step", status.stopped_early().step()},
                             {"total_steps", status.stopped_early().total_steps()},
                             {"reason", status.stopped_early().reason()}};
  }
  if (status.has_best()) json["best"] = BestJson(status.best());
  if (status.has_time_spent()) json["time_spent"] = TimeSpentJson(status.time_spent());
  if (status.has_step_times()) json["step_times"] = StepTimesJson(status.step_times());
  if (explanation != nullptr) json["workers"] = DevicesJson(*explanation);
  return JsonLine(json);
}

std::string DescribeState(const JobStatus& status) {
  const std::string state = JobState_Name(status.state());
  return status.message().empty() ? state : absl::StrCat(state, ": ", Printable(status.message()));
}

std::string JobText(const JobStatus& status, absl::TimeZone zone, absl::Time now) {
  std::string text = absl::StrCat("job        ", PrintableName(status.job_id()), "\n");
  const auto add = [&text](const char* label, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, label, Printable(value), "\n");
  };
  add("name       ", status.spec().name());
  add("state      ", JobState_Name(status.state()));
  add("message    ", status.message());
  for (const std::string& warning : status.warnings()) add("warning    ", warning);
  add("steps      ", Steps(status));
  add("run again  ", RunAgain(status));
  add("metrics    ", absl::StrJoin(FormatMetrics(ToMetrics(status.metrics())), "  "));
  add("stops      ", DescribeStopping(status));
  if (status.has_best()) {
    add("best       ", absl::StrCat(DescribeBest(status.best()), ", checkpoint ",
                                    CheckpointFolder(status.best().checkpoint().number())));
  }
  if (status.has_submitted()) add("submitted  ", TimeText(status.submitted(), zone));
  if (status.has_started()) add("started    ", TimeText(status.started(), zone));
  if (status.has_ended()) add("ended      ", TimeText(status.ended(), zone));
  add("a step     ", FormatStepTimes(status.step_times()));
  add("advice     ", StepAdvice(status.step_times()));
  if (status.has_checkpoint()) {
    const CheckpointInfo& checkpoint = status.checkpoint();
    add("checkpoint ",
        absl::StrCat(DescribeCheckpoint(checkpoint, now), ", ", FormatBytes(checkpoint.bytes()),
                     ", in ", checkpoint.directory()));
  }
  return status.has_time_spent() ? text + TimeSpentTable(status.time_spent()) : text;
}

std::string JobTable(const std::vector<JobStatus>& jobs, absl::TimeZone zone, absl::Time now) {
  Table table({"JOB", "NAME", "STATE", "STEPS", "SUBMITTED", "CHECKPOINT"});
  for (const JobStatus& job : jobs) {
    table.AddRow({PrintableName(job.job_id()), PrintableName(job.spec().name()),
                  absl::StrCat(JobState_Name(job.state()), job.warnings().empty() ? "" : " (!)"),
                  Steps(job), job.has_submitted() ? TimeText(job.submitted(), zone) : "",
                  job.has_checkpoint() ? DescribeCheckpoint(job.checkpoint(), now) : ""});
  }
  return table.ToString();
}

}  // namespace millrace::client
