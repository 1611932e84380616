#include "client/commands/checkpoints_ls.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "absl/types/optional.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/printable.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

struct ListedLine {
  absl::optional<CheckpointManifest> manifest;
  std::string problem;  // Empty: none that is seen without reading its values.
};

using Lines = std::map<uint64_t, ListedLine>;

// Folders that look like checkpoints and have no manifest.
void AddUnfinished(const std::string& directory, Lines* lines) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const auto number = ParseCheckpointFolder(entry.path().filename().string());
    if (!number || lines->count(*number) > 0) continue;
    (*lines)[*number].problem = "unfinished: it has no manifest";
  }
}

absl::StatusOr<Lines> ListAll(const CheckpointName& name) {
  const CheckpointDirectory directory(RealFileSystem(), name.directory);
  MILLRACE_ASSIGN_OR_RETURN(const auto listed, directory.List());
  Lines lines;
  for (const CheckpointDirectory::Listed& each : listed) {
    ListedLine& line = lines[each.number];
    if (each.manifest.ok()) line.manifest = *each.manifest;
    const absl::Status status = CheckOpens(name.directory, each);
    if (!status.ok()) line.problem = std::string(status.message());
  }
  AddUnfinished(name.directory, &lines);
  if (name.number == 0) return lines;
  const auto found = lines.find(name.number);
  if (found == lines.end()) {
    return NoSuchCheckpoint(name.directory, name.number);
  }
  return Lines{*found};
}

nlohmann::ordered_json LineJson(const std::string& directory, uint64_t number,
                                const ListedLine& line) {
  nlohmann::ordered_json json = {{"number", number}, {"path", PathOf(directory, number)}};
  if (line.manifest) {
    json["job_id"] = line.manifest->job_id();
    json["step"] = line.manifest->step();
    json["exact"] = line.manifest->exact();
    json["bytes"] = BytesOf(*line.manifest);
    json["written"] = absl::FormatTime(absl::RFC3339_full, FromTimestamp(line.manifest->written()),
                                       absl::UTCTimeZone());
  }
  if (!line.problem.empty()) json["problem"] = line.problem;
  return json;
}

std::string LinesTable(const Lines& lines, absl::Time now) {
  Table table({"NUMBER", "STEP", "EXACT", "AGE", "SIZE", "JOB", "PROBLEM"});
  for (const auto& [number, line] : lines) {
    const std::string problem = Printable(line.problem);
    if (!line.manifest) {
      table.AddRow({CheckpointFolder(number), "", "", "", "", "", problem});
      continue;
    }
    const CheckpointManifest& manifest = *line.manifest;
    table.AddRow({CheckpointFolder(number), FormatCount(manifest.step()),
                  manifest.exact() ? "yes" : "no",
                  FormatAge(now - FromTimestamp(manifest.written())),
                  FormatBytes(BytesOf(manifest)), PrintableName(manifest.job_id()), problem});
  }
  return table.ToString();
}

}  // namespace

absl::StatusOr<ExitCode> RunCheckpointsLs(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointName name, ParsePath(context.flags.path));
  MILLRACE_ASSIGN_OR_RETURN(const Lines lines, ListAll(name));
  std::ostream& out = *context.console.out;
  if (context.flags.json) {
    for (const auto& [number, line] : lines) {
      out << JsonLine(LineJson(name.directory, number, line));
    }
  } else {
    out << LinesTable(lines, absl::Now());
  }
  out << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
