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

std::string AgeText(const google::protobuf::Duration& since) { return FormatAge(FromProto(since)); }

std::vector<std::string> JobsOf(const MemberReport& worker) {
  return {worker.job_ids().begin(), worker.job_ids().end()};
}

std::string PsServersText(const ListMembersResponse& members) {
  if (members.ps_servers().empty()) {
    return "no ps server is there; start one with `ps --coordinator=HOST:PORT --data_dir=DIR`\n";
  }
  Table table({"PS SERVER", "AT", "SHARDS", "ELEMENTS", "HERE FOR", "VERSION"});
  for (const MemberReport& ps : members.ps_servers()) {
    table.AddRow({PrintableName(ps.name()), Printable(ps.address()), FormatCount(ps.shards()),
                  FormatCount(ps.elements()), AgeText(ps.since()), Printable(ps.version())});
  }
  return table.ToString();
}

std::string WorkersText(const ListMembersResponse& members) {
  if (members.workers().empty()) {
    return "no worker is there; start one with `worker --coordinator=HOST:PORT`\n";
  }
  Table table({"WORKER", "ON", "MEMORY", "BUSY", "JOBS", "HERE FOR", "VERSION"});
  for (const MemberReport& worker : members.workers()) {
    table.AddRow({PrintableName(worker.name()), Printable(worker.device()),
                  DeviceMemoryText(worker.device_use()), DeviceBusyText(worker.device_use()),
                  Printable(absl::StrJoin(JobsOf(worker), " ")), AgeText(worker.since()),
                  Printable(worker.version())});
  }
  return table.ToString();
}

std::string DepartedText(const ListMembersResponse& members) {
  Table table({"GONE", "WAS A", "FOR", "WHY"});
  for (const DepartedMember& gone : members.departed()) {
    table.AddRow({PrintableName(gone.name()), gone.is_worker() ? "worker" : "ps server",
                  AgeText(gone.since()), OneLine(gone.reason())});
  }
  return table.ToString();
}

Json MemberJson(const MemberReport& member, const char* role) {
  return {{"role", role},
          {"name", member.name()},
          {"version", member.version()},
          {"is_there", true},
          {"seconds", SecondsOf(member.since())},
          {"silent_seconds", SecondsOf(member.silent())}};
}

}  // namespace

std::string MembersText(const ListMembersResponse& members) {
  std::string text = absl::StrCat("coordinator ", Printable(members.coordinator_version()), "\n\n",
                                  PsServersText(members), "\n", WorkersText(members));
  if (!members.departed().empty()) absl::StrAppend(&text, "\n", DepartedText(members));
  return text;
}

std::string MembersJson(const ListMembersResponse& members) {
  std::string lines = JsonLine(
      {{"role", "coordinator"}, {"version", members.coordinator_version()}, {"is_there", true}});
  for (const MemberReport& ps : members.ps_servers()) {
    Json json = MemberJson(ps, "ps");
    json["address"] = ps.address();
    json["shards"] = ps.shards();
    json["elements"] = ps.elements();
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
    absl::StrAppend(&lines, JsonLine({{"role", gone.is_worker() ? "worker" : "ps"},
                                      {"name", gone.name()},
                                      {"is_there", false},
                                      {"seconds", SecondsOf(gone.since())},
                                      {"reason", gone.reason()}}));
  }
  return lines;
}

}  // namespace millrace::client
