#include "client/commands/why_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/commands/job_text.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/job_state.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostMissingShown = 8;

// Empty: not known.
std::string ShortTimeText(const google::protobuf::Duration& duration) {
  return SecondsOf(duration) > 0 ? FormatShortTime(FromProto(duration)) : "";
}

std::string WaitsText(const JobExplanation& explanation) {
  Table table({"WAITS FOR", "TO", "FOR"});
  for (const Wait& wait : explanation.waits()) {
    std::string what = Printable(wait.what());
    if (what.rfind("to ", 0) == 0) what = what.substr(3);
    table.AddRow({Printable(wait.whom()), what, ShortTimeText(wait.since())});
  }
  return table.ToString();
}

// Nobody knows any more who did how many steps of a job that has ended.
std::string WorkersText(const JobExplanation& explanation) {
  const bool has_ended = HasEnded(explanation.status().state());
  Table table({"WORKER", "ON", "STEPS", "SHARE", "STEP TIME", "SLOWNESS", "DOES", "TROUBLE"});
  for (const WorkerReport& worker : explanation.workers()) {
    table.AddRow({PrintableName(worker.name()), Printable(worker.device()),
                  has_ended ? "-" : FormatCount(worker.steps_done()),
                  worker.steps_done() > 0 ? absl::StrFormat("%.0f%%", 100 * worker.share()) : "",
                  ShortTimeText(worker.step_time()),
                  worker.slowness() > 0 ? absl::StrFormat("%.1f", worker.slowness()) : "",
                  Printable(worker.activity()), Printable(worker.trouble())});
  }
  return table.ToString();
}

std::string MissingText(const ShardReport& shard) {
  std::vector<std::string> steps;
  for (const uint64_t step : shard.missing()) {
    if (static_cast<int>(steps.size()) == kMostMissingShown) {
      steps.push_back("...");
      break;
    }
    steps.push_back(absl::StrCat(step));
  }
  return absl::StrJoin(steps, " ");
}

std::string ShardsText(const JobExplanation& explanation) {
  Table table({"SHARD", "SERVER", "VERSION", "BEHIND", "LACKS STEPS", "TROUBLE"});
  for (const ShardReport& shard : explanation.shards()) {
    table.AddRow({absl::StrCat(shard.shard()), PrintableName(shard.server()),
                  FormatCount(shard.version()),
                  shard.behind() > 0 ? FormatCount(shard.behind()) : "", MissingText(shard),
                  Printable(shard.trouble())});
  }
  return table.ToString();
}

std::string EventsText(const JobExplanation& explanation, absl::TimeZone zone) {
  std::string text;
  for (const JobEvent& event : explanation.recent()) {
    const std::string what = DescribeEvent(event);
    if (what.empty()) continue;
    absl::StrAppend(&text, absl::FormatTime("%H:%M:%S", FromTimestamp(event.time()), zone), "  ",
                    what, "\n");
  }
  return text;
}

}  // namespace

std::string WhyText(const JobExplanation& explanation, absl::TimeZone zone) {
  std::string text = absl::StrCat(Printable(explanation.verdict()), "\n");
  const auto add = [&text](const std::string& part) {
    if (!part.empty()) absl::StrAppend(&text, "\n", part);
  };
  if (explanation.waits_size() > 0) add(WaitsText(explanation));
  if (explanation.workers_size() > 0) add(WorkersText(explanation));
  if (explanation.shards_size() > 0) add(ShardsText(explanation));
  add(EventsText(explanation, zone));
  if (const std::string spent = FormatTimeSpent(explanation.status().time_spent());
      !spent.empty()) {
    add(absl::StrCat("spent  ", spent, "\n"));
  }
  return text;
}

std::string WhyJson(const JobExplanation& explanation) {
  const JobStatus& status = explanation.status();
  Json json = {{"job_id", status.job_id()},
               {"state", JobState_Name(status.state())},
               {"step", status.step()},
               {"total_steps", status.total_steps()},
               {"verdict", explanation.verdict()},
               {"waits", Json::array()},
               {"workers", Json::array()},
               {"shards", Json::array()},
               {"recent", Json::array()}};
  for (const Wait& wait : explanation.waits()) {
    json["waits"].push_back(
        {{"whom", wait.whom()}, {"what", wait.what()}, {"seconds", SecondsOf(wait.since())}});
  }
  for (const WorkerReport& worker : explanation.workers()) {
    json["workers"].push_back({{"name", worker.name()},
                               {"device", worker.device()},
                               {"trouble", worker.trouble()},
                               {"activity", worker.activity()},
                               {"steps_done", worker.steps_done()},
                               {"share", worker.share()},
                               {"step_seconds", SecondsOf(worker.step_time())},
                               {"slowness", worker.slowness()}});
  }
  for (const ShardReport& shard : explanation.shards()) {
    json["shards"].push_back(
        {{"shard", shard.shard()},
         {"server", shard.server()},
         {"trouble", shard.trouble()},
         {"version", shard.version()},
         {"behind", shard.behind()},
         {"missing", std::vector<uint64_t>(shard.missing().begin(), shard.missing().end())}});
  }
  for (const JobEvent& event : explanation.recent()) {
    json["recent"].push_back(
        {{"sequence", event.sequence()},
         {"time",
          absl::FormatTime(absl::RFC3339_full, FromTimestamp(event.time()), absl::UTCTimeZone())},
         {"text", DescribeEvent(event)}});
  }
  if (status.has_time_spent()) json["time_spent"] = TimeSpentJson(status.time_spent());
  return JsonLine(json);
}

}  // namespace millrace::client
