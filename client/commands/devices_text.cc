#include "client/commands/devices_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "common/printable.h"
#include "nlohmann/json.hpp"

namespace millrace::client {

std::string DeviceMemoryText(const DeviceUse& use) {
  if (use.memory() == 0) return "";
  return absl::StrCat(FormatBytes(use.memory_used()), " of ", FormatBytes(use.memory()));
}

std::string DeviceBusyText(const DeviceUse& use) {
  return use.memory() == 0 ? "" : absl::StrFormat("%.0f%%", 100 * use.busy());
}

void AddDeviceUse(const DeviceUse& use, nlohmann::ordered_json* json) {
  if (use.memory() == 0) return;
  (*json)["device_memory"] = use.memory();
  (*json)["device_memory_used"] = use.memory_used();
  (*json)["device_busy"] = use.busy();
}

std::string DevicesText(const JobExplanation& explanation) {
  Table table({"WORKER", "ON", "MEMORY", "BUSY", "STEPS"});
  bool any = false;
  for (const WorkerReport& worker : explanation.workers()) {
    any |= !worker.device().empty();
    // One that is gone computes on nothing, and its trouble says so.
    const std::string& on = worker.device().empty() ? worker.trouble() : worker.device();
    table.AddRow({PrintableName(worker.name()), Printable(on),
                  DeviceMemoryText(worker.device_use()), DeviceBusyText(worker.device_use()),
                  FormatCount(worker.steps_done())});
  }
  return any ? table.ToString() : "";
}

nlohmann::ordered_json DevicesJson(const JobExplanation& explanation) {
  auto workers = nlohmann::ordered_json::array();
  for (const WorkerReport& worker : explanation.workers()) {
    nlohmann::ordered_json json = {
        {"name", worker.name()}, {"device", worker.device()}, {"steps_done", worker.steps_done()}};
    AddDeviceUse(worker.device_use(), &json);
    workers.push_back(std::move(json));
  }
  return workers;
}

}  // namespace millrace::client
