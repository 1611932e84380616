#include "client/commands/checkpoints_rm.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/checkpoint_choice.h"
#include "client/progress/json_lines.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

// Those that can be opened, by number.
std::vector<uint64_t> WholeOnes(const std::string& directory,
                                const std::vector<CheckpointDirectory::Listed>& listed) {
  std::vector<uint64_t> whole;
  for (const CheckpointDirectory::Listed& each : listed) {
    if (CheckOpens(directory, each).ok()) whole.push_back(each.number);
  }
  return whole;
}

// The numbers to remove, in order. Damaged ones go only by their names.
absl::StatusOr<std::vector<uint64_t>> Chosen(const Flags& flags, const CheckpointName& name,
                                             const std::vector<uint64_t>& whole) {
  if (flags.keep == 0) {
    if (!flags.force && !whole.empty() && whole.back() == name.number) {
      return absl::FailedPreconditionError(absl::StrCat(
          PathOf(name.directory, name.number),
          " is the newest whole checkpoint: what it has would be lost; --force removes it"));
    }
    return std::vector<uint64_t>{name.number};
  }
  const size_t keep = static_cast<size_t>(flags.keep);
  if (whole.size() <= keep) return std::vector<uint64_t>();
  return std::vector<uint64_t>(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(keep));
}

absl::Status CheckChoice(const Flags& flags, const CheckpointName& name) {
  if (flags.keep == 0 && name.number == 0) {
    return UsageError(absl::StrCat("PATH: ", flags.path,
                                   "; name the checkpoint to remove, such as ", name.directory,
                                   "/000017, or say with --keep=N how many of the newest stay"));
  }
  if (flags.keep > 0 && name.number > 0) {
    return UsageError("--keep takes the directory of checkpoints, and not the path of one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExitCode> RunCheckpointsRm(const CommandContext& context) {
  const Flags& flags = context.flags;
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointName name, ParsePath(flags.path));
  MILLRACE_RETURN_IF_ERROR(CheckChoice(flags, name));
  CheckpointDirectory directory(RealFileSystem(), name.directory);
  MILLRACE_ASSIGN_OR_RETURN(const auto listed, directory.List());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> numbers,
                            Chosen(flags, name, WholeOnes(name.directory, listed)));
  for (const uint64_t number : numbers) {
    if (context.interrupt->triggered()) return absl::CancelledError("interrupted");
    MILLRACE_RETURN_IF_ERROR(directory.Remove(number));
    if (!flags.json) {
      *context.console.out << "removed " << PathOf(name.directory, number) << std::endl;
    }
  }
  if (flags.json) {
    *context.console.out << JsonLine({{"removed", numbers}}) << std::flush;
  } else if (numbers.empty()) {
    *context.console.out << "nothing to remove" << std::endl;
  }
  return ExitCode::kSucceeded;
}

}  // namespace millrace::client
