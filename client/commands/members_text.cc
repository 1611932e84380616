#include "client/commands/members_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/devices_text.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using Json = nlohmann::ordered_json;

// A member that has not spoken for so many heartbeats is told of as silent.
constexpr double kSilentPeriods = 1.5;

// Empty: not known.
std::string AgeText(const google::protobuf::Duration& since) {
  return SecondsOf(since) > 0 ? FormatAge(FromProto(since)) : "";
}

std::vector<std::string> JobsOf(const MemberReport& worker) {
  return {worker.job_ids().begin(), worker.job_ids().end()};
}

// What is not as it should be with a member that is there. Empty: nothing.
std::string TroubleOf(const MemberReport& member, const ListMembersResponse& members) {
  const double silent = SecondsOf(member.silent());
  if (silent > kSilentPeriods * SecondsOf(members.heartbeat_period())) {
    return absl::StrCat("silent for ", AgeText(member.silent()));
  }
  if (member.draining()) return "stops";
  return member.evacuated() ? "evacuated" : "";
}

std::string CoordinatorText(const ListMembersResponse& members) {
  const int servers = members.ps_servers_size();
  const int workers = members.workers_size();
  return absl::StrCat("coordinator ", Printable(members.coordinator_version()), ", for ",
                      FormatAge(FromProto(members.coordinator_since())), "; ", servers,
                      servers == 1 ? " ps server, " : " ps servers, ", workers,
                      workers == 1 ? " worker" : " workers", "\n");
}

std::string PsServersText(const ListMembersResponse& members) {
  if (members.ps_servers().empty()) {
    return "no ps server is there; start one with `ps --coordinator=HOST:PORT --data_dir=DIR`\n";
  }
  Table table({"PS SERVER", "AT", "SHARDS", "ELEMENTS", "HERE FOR", "VERSION", "TROUBLE"});
  for (const MemberReport& ps : members.ps_servers()) {
    table.AddRow({PrintableName(ps.name()), OneLine(ps.address()), FormatCount(ps.shards()),
                  FormatCount(ps.elements()), AgeText(ps.since()), OneLine(ps.version()),
                  TroubleOf(ps, members)});
  }
  return table.ToString();
}

std::string WorkersText(const ListMembersResponse& members) {
  if (members.workers().empty()) {
    return "no worker is there; start one with `worker --coordinator=HOST:PORT`\n";
  }
  Table table({"WORKER", "ON", "MEMORY", "BUSY", "JOBS", "HERE FOR", "VERSION", "TROUBLE"});
  for (const MemberReport& worker : members.workers()) {
    table.AddRow({PrintableName(worker.name()), OneLine(worker.device()),
                  DeviceMemoryText(worker.device_use()), DeviceBusyText(worker.device_use()),
                  OneLine(absl::StrJoin(JobsOf(worker), " ")), AgeText(worker.since()),
                  OneLine(worker.version()), TroubleOf(worker, members)});
  }
  return table.ToString();
}

std::string DepartedText(const ListMembersResponse& members) {
  Table table({"GONE", "WAS A", "AT", "SHARDS", "FOR", "WHY"});
  for (const DepartedMember& gone : members.departed()) {
    std::vector<std::string> why;
    if (gone.evacuated()) why.push_back("evacuated");
    if (gone.in_good_order()) {
      why.push_back("it was stopped");
    } else {
      why.push_back(gone.has_since() ? OneLine(gone.reason()) : "is not known");
    }
    table.AddRow({PrintableName(gone.name()), gone.is_worker() ? "worker" : "ps server",
                  OneLine(gone.address()), gone.shards() > 0 ? FormatCount(gone.shards()) : "",
                  AgeText(gone.since()), absl::StrJoin(why, "; ")});
  }
  return table.ToString();
}

// What is told of a ps server, be it there or not.
template <typename Report>
void AddPs(const Report& ps, Json* json) {
  (*json)["evacuated"] = ps.evacuated();
  (*json)["address"] = ps.address();
  (*json)["directory_id"] = ps.directory_id();
  (*json)["shards"] = ps.shards();
  (*json)["elements"] = ps.elements();
}

Json MemberJson(const MemberReport& member, const char* role) {
  return {{"role", role},
          {"name", member.name()},
          {"is_there", true},
          {"version", member.version()},
          {"here_seconds", SecondsOf(member.since())},
          {"silent_seconds", SecondsOf(member.silent())},
          {"draining", member.draining()}};
}

Json DepartedJson(const DepartedMember& gone) {
  Json json = {
      {"role", gone.is_worker() ? "worker" : "ps"}, {"name", gone.name()}, {"is_there", false}};
  if (gone.has_since()) {
    json["gone_seconds"] = SecondsOf(gone.since());
    json["reason"] = gone.reason();
    json["in_good_order"] = gone.in_good_order();
  }
  if (!gone.is_worker()) AddPs(gone, &json);
  return json;
}

}  // namespace

std::string MembersText(const ListMembersResponse& members) {
  std::string text = absl::StrCat(CoordinatorText(members), "\n", PsServersText(members), "\n",
                                  WorkersText(members));
  if (!members.departed().empty()) absl::StrAppend(&text, "\n", DepartedText(members));
  return text;
}

std::string MembersJson(const ListMembersResponse& members) {
  std::string lines =
      JsonLine({{"role", "coordinator"},
                {"is_there", true},
                {"version", members.coordinator_version()},
                {"here_seconds", SecondsOf(members.coordinator_since())},
                {"heartbeat_period_seconds", SecondsOf(members.heartbeat_period())}});
  for (const MemberReport& ps : members.ps_servers()) {
    Json json = MemberJson(ps, "ps");
    AddPs(ps, &json);
    absl::StrAppend(&lines, JsonLine(json));
  }
  for (const MemberReport& worker : members.workers()) {
    Json json = MemberJson(worker, "worker");
    json["device"] = worker.device();
    AddDeviceUse(worker.device_use(), &json);
    json["jobs"] = JobsOf(worker);
    absl::StrAppend(&lines, JsonLine(json));
  }
  for (const DepartedMember& gone : members.departed()) {
    absl::StrAppend(&lines, JsonLine(DepartedJson(gone)));
  }
  return lines;
}

}  // namespace millrace::client
