#include "client/commands/job_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "common/printable.h"
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

}  // namespace

std::string JobJson(const JobStatus& status) {
  nlohmann::ordered_json json = {{"job_id", status.job_id()},
                                 {"name", status.spec().name()},
                                 {"state", JobState_Name(status.state())},
                                 {"message", status.message()},
                                 {"step", status.step()},
                                 {"total_steps", status.total_steps()},
                                 {"steps_run_again", status.steps_run_again()},
                                 {"metrics", ToMetrics(status.metrics())},
                                 {"warnings", nlohmann::json::array()}};
  for (const std::string& warning : status.warnings()) json["warnings"].push_back(warning);
  const auto add_time = [&json](const char* name, const google::protobuf::Timestamp& time) {
    json[name] = absl::FormatTime(absl::RFC3339_full, FromTimestamp(time), absl::UTCTimeZone());
  };
  if (status.has_submitted()) add_time("submitted", status.submitted());
  if (status.has_started()) add_time("started", status.started());
  if (status.has_ended()) add_time("ended", status.ended());
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string DescribeState(const JobStatus& status) {
  const std::string state = JobState_Name(status.state());
  return status.message().empty() ? state : absl::StrCat(state, ": ", Printable(status.message()));
}

std::string JobText(const JobStatus& status, absl::TimeZone zone) {
  std::string text = absl::StrCat("job        ", PrintableName(status.job_id()), "\n");
  const auto add = [&text](const char* label, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, label, Printable(value), "\n");
  };
  add("name       ", status.spec().name());
  add("state      ", JobState_Name(status.state()));
  add("message    ", status.message());
  for (const std::string& warning : status.warnings()) add("warning    ", warning);
  add("steps      ", Steps(status));
  if (status.steps_run_again() > 0) add("run again  ", FormatCount(status.steps_run_again()));
  add("metrics    ", absl::StrJoin(FormatMetrics(ToMetrics(status.metrics())), "  "));
  if (status.has_submitted()) add("submitted  ", TimeText(status.submitted(), zone));
  if (status.has_started()) add("started    ", TimeText(status.started(), zone));
  if (status.has_ended()) add("ended      ", TimeText(status.ended(), zone));
  return text;
}

std::string JobTable(const std::vector<JobStatus>& jobs, absl::TimeZone zone) {
  Table table({"JOB", "NAME", "STATE", "STEPS", "SUBMITTED"});
  for (const JobStatus& job : jobs) {
    table.AddRow({PrintableName(job.job_id()), PrintableName(job.spec().name()),
                  absl::StrCat(JobState_Name(job.state()), job.warnings().empty() ? "" : " (!)"),
                  Steps(job), job.has_submitted() ? TimeText(job.submitted(), zone) : ""});
  }
  return table.ToString();
}

}  // namespace millrace::client
