#include "client/commands/devices_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "common/printable.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

std::string MemoryText(const WorkerReport& worker) {
  if (!worker.has_device_use()) return "";
  return absl::StrCat(FormatBytes(worker.device_use().memory_used()), " of ",
                      FormatBytes(worker.device_use().memory()));
}

std::string BusyText(const WorkerReport& worker) {
  if (!worker.has_device_use()) return "";
  return absl::StrFormat("%.0f%%", 100 * worker.device_use().busy());
}

}  // namespace

std::string DevicesText(const JobExplanation& explanation) {
  Table table({"WORKER", "ON", "MEMORY", "BUSY", "STEPS"});
  bool any = false;
  for (const WorkerReport& worker : explanation.workers()) {
    any |= !worker.device().empty();
    // One that is gone computes on nothing, and its trouble says so.
    const std::string& on = worker.device().empty() ? worker.trouble() : worker.device();
    table.AddRow({PrintableName(worker.name()), Printable(on), MemoryText(worker), BusyText(worker),
                  FormatCount(worker.steps_done())});
  }
  return any ? table.ToString() : "";
}

nlohmann::ordered_json DevicesJson(const JobExplanation& explanation) {
  auto workers = nlohmann::ordered_json::array();
  for (const WorkerReport& worker : explanation.workers()) {
    nlohmann::ordered_json json = {
        {"name", worker.name()}, {"device", worker.device()}, {"steps_done", worker.steps_done()}};
    if (worker.has_device_use()) {
      json["device_memory"] = worker.device_use().memory();
      json["device_memory_used"] = worker.device_use().memory_used();
      json["device_busy"] = worker.device_use().busy();
    }
    workers.push_back(std::move(json));
  }
  return workers;
}

}  // namespace millrace::client
