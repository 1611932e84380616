#include "client/commands/checkpoints_ls.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "client/commands/best.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/checkpoint_folders.h"
#include "client/commands/table.h"
#include "client/progress/format.h"
#include "client/progress/json_lines.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/printable.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

struct ListedLine {
  absl::optional<CheckpointManifest> manifest;
  std::string problem;                  // Empty: none that is seen without reading its values.
  absl::optional<BestEvaluation> best;  // It has the state of the best evaluation.
  // It is no checkpoint any more, but these refer to its files.
  std::vector<uint64_t> kept_for;
};

using Lines = std::map<uint64_t, ListedLine>;

ListedLine WithoutManifest(const std::string& directory, const ListedCheckpoints& listed,
                           uint64_t number) {
  ListedLine line;
  FolderUse use = UseOf(listed, number);
  if (!use.needed_by.empty()) {
    line.kept_for = std::move(use.needed_by);
  } else if (!use.unreadable.empty()) {
    line.problem = absl::StrCat("it has no manifest; its files stay, as that of ",
                                FoldersText(use.unreadable), " cannot be read");
  } else if (IsAbandoned(directory, listed, number)) {
    line.problem =
        "garbage: no checkpoint needs it; the next one removes it, or `millrace checkpoints rm`";
  } else {
    line.problem = "unfinished: it has no manifest";
  }
  return line;
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
  for (const uint64_t number : FoldersWithoutManifest(name.directory, listed)) {
    lines[number] = WithoutManifest(name.directory, listed, number);
  }
  const auto best = BestIn(listed);
  const auto has_best = lines.find(best ? best->checkpoint().number() : 0);
  if (has_best != lines.end()) has_best->second.best = best;
  if (name.number == 0) return lines;
  const auto found = lines.find(name.number);
  if (found == lines.end()) {
    return NoSuchCheckpoint(name.directory, name.number);
  }
  return Lines{*found};
}

nlohmann::ordered_json LineJson(const std::string& directory, uint64_t number,
                                const ListedLine& line) {
  nlohmann::ordered_json json = {{"number", number}, {"path", CheckpointPath(directory, number)}};
  if (line.manifest) {
    json["job_id"] = line.manifest->job_id();
    json["step"] = line.manifest->step();
    json["exact"] = line.manifest->exact();
    json["bytes"] = BytesOf(*line.manifest);
    json["written"] = absl::FormatTime(absl::RFC3339_full, FromTimestamp(line.manifest->written()),
                                       absl::UTCTimeZone());
  }
  if (line.best) json["best"] = BestJson(*line.best);
  if (!line.kept_for.empty()) json["kept_for"] = line.kept_for;
  if (!line.problem.empty()) json["problem"] = line.problem;
  return json;
}

std::string LinesTable(const Lines& lines, absl::Time now) {
  Table table({"NUMBER", "STEP", "EXACT", "AGE", "SIZE", "JOB", "KEPT FOR", "PROBLEM"});
  for (const auto& [number, line] : lines) {
    const std::string problem = Printable(line.problem);
    if (!line.manifest) {
      table.AddRow(
          {CheckpointFolder(number), "", "", "", "", "", FoldersText(line.kept_for), problem});
      continue;
    }
    const CheckpointManifest& manifest = *line.manifest;
    table.AddRow({CheckpointFolder(number), FormatCount(manifest.step()),
                  manifest.exact() ? "yes" : "no",
                  FormatAge(now - FromTimestamp(manifest.written())),
                  FormatBytes(BytesOf(manifest)), PrintableName(manifest.job_id()),
                  line.best ? absl::StrCat("best ", DescribeBest(*line.best)) : "", problem});
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
  } else if (lines.empty()) {
    out << "no checkpoints in " << PrintableName(name.directory) << "\n";
  } else {
    out << LinesTable(lines, absl::Now());
  }
  out << std::flush;
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
