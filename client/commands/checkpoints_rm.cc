#include "client/commands/checkpoints_rm.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/best.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/checkpoint_folders.h"
#include "client/progress/format.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::coordinator::CheckpointHold;
using ::millrace::coordinator::WhoHolds;
using RmJson = nlohmann::ordered_json;

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

// Of one that is none, or not yet.
absl::Status CheckFolderMayGo(const Flags& flags, const CheckpointName& name,
                              const ListedCheckpoints& listed) {
  const std::string path = CheckpointPath(name.directory, name.number);
  if (!HasFiles(name.directory, name.number)) return NoSuchCheckpoint(name.directory, name.number);
  if (flags.force || IsAbandoned(name.directory, listed, name.number)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is no checkpoint yet: a job may be writing it; --force removes it"));
}

// Reads the values of further ones, until one is whole.
absl::Status CheckNotFurthestWhole(const CommandContext& context, const CheckpointName& name,
                                   const ListedCheckpoints& listed) {
  for (const CheckpointDirectory::Listed& each : InOrderOfUse(listed)) {
    if (each.number == name.number) break;
    const absl::Status whole = CheckWhole(*context.interrupt, name.directory, each.number);
    if (whole.ok() || absl::IsCancelled(whole)) return whole;
  }
  const absl::Status itself = CheckWhole(*context.interrupt, name.directory, name.number);
  if (absl::IsDataLoss(itself) || absl::IsCancelled(itself)) {
    return absl::IsDataLoss(itself) ? absl::OkStatus() : itself;
  }
  const std::string path = CheckpointPath(name.directory, name.number);
  if (itself.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is the furthest whole checkpoint: a job goes on from it; --force removes it"));
  }
  return absl::Status(itself.code(),
                      absl::StrCat("there is no further whole checkpoint than ", path,
                                   ", which may be whole: ", std::string(itself.message()),
                                   "; --force removes it"));
}

// `may`: what the job that has the directory may do with the checkpoint.
absl::Status NeededByJob(const std::string& path, const std::string& held, const char* may) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " stays for now: ", held, ", which may ", may,
                   "; have a further one written first (millrace checkpoint JOB_ID), or wait for "
                   "that job's end, or cancel it"));
}

// One command's work.
class Remover {
 public:
  Remover(const CommandContext& context, const CheckpointName& name)
      : context_(context),
        name_(name),
        directory_(RealFileSystem(), name.directory),
        hold_(RealFileSystem(), name.directory) {}

  absl::StatusOr<ExitCode> Run() {
    MILLRACE_ASSIGN_OR_RETURN(listed_, directory_.List());
    MILLRACE_RETURN_IF_ERROR(Choose());
    MILLRACE_RETURN_IF_ERROR(HoldDirectory());
    for (const uint64_t number : numbers_) {
      if (context_.interrupt->triggered()) return absl::CancelledError("interrupted");
      const absl::Status removed = directory_.Remove(number);
      // Somebody else may have been faster.
      if (!absl::IsNotFound(removed)) MILLRACE_RETURN_IF_ERROR(removed);
      MILLRACE_RETURN_IF_ERROR(TellOfRemoved(number));
    }
    MILLRACE_RETURN_IF_ERROR(CollectGarbage());
    TellOfTheRest();
    return ExitCode::kSucceeded;
  }

 private:
  absl::Status Choose() {
    if (context_.flags.keep > 0) return ChooseAllButTheNewest();
    const bool is_listed = std::any_of(listed_.begin(), listed_.end(), [this](const auto& each) {
      return each.number == name_.number;
    });
    if (!is_listed) {
      folder_ = name_.number;
      return CheckFolderMayGo(context_.flags, name_, listed_);
    }
    numbers_ = {name_.number};
    if (!context_.flags.force) MILLRACE_RETURN_IF_ERROR(CheckNotBest());
    return context_.flags.force ? absl::OkStatus()
                                : CheckNotFurthestWhole(context_, name_, listed_);
  }

  // From here on no job begins in the directory. One that has it already goes on meanwhile: only
  // what it may need stays, with --force too.
  absl::Status HoldDirectory() {
    const std::string held =
        WhoHolds(hold_.Take("`millrace checkpoints rm`", /*makes_directory=*/false));
    if (held.empty()) return absl::OkStatus();
    const std::string path = CheckpointPath(name_.directory, name_.number);
    if (folder_ != 0 && !IsAbandoned(name_.directory, listed_, folder_)) {
      return NeededByJob(path, held, "be writing it");
    }
    if (numbers_.empty() || name_.number == 0) return absl::OkStatus();
    if (name_.number == listed_.back().number) {
      return NeededByJob(path, held, "go on from it, and refer to its files in the next one");
    }
    if (!context_.flags.force) return absl::OkStatus();
    const absl::Status further = CheckNotFurthestWhole(context_, name_, listed_);
    if (further.ok() || absl::IsCancelled(further)) return further;
    return NeededByJob(path, held, "go on from it");
  }

  absl::Status CheckNotBest() const {
    const auto best = BestIn(listed_);
    if (!best || best->checkpoint().number() != name_.number) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(CheckpointPath(name_.directory, name_.number),
                                                      " has the state of the best ",
                                                      DescribeBest(*best), "; --force removes it"));
  }

  // Whether every byte of it is as written. Reads each once.
  absl::Status CheckWholeOnce(uint64_t number) {
    const auto known = read_.find(number);
    if (known != read_.end()) return known->second;
    return read_[number] = CheckWhole(*context_.interrupt, name_.directory, number);
  }

  // 0: there is none. CANCELLED: interrupted.
  absl::StatusOr<uint64_t> FindFurthestWhole() {
    for (const CheckpointDirectory::Listed& each : InOrderOfUse(listed_)) {
      const absl::Status whole = CheckWholeOnce(each.number);
      if (absl::IsCancelled(whole)) return whole;
      if (whole.ok()) return each.number;
    }
    return uint64_t{0};
  }

  // Reads the values of those that stay. Damaged ones go only by their names.
  absl::Status ChooseAllButTheNewest() {
    int kept = 0;
    const auto best = BestIn(listed_);
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t furthest, FindFurthestWhole());
    for (auto each = listed_.rbegin(); each != listed_.rend(); ++each) {
      const bool has_enough = kept == context_.flags.keep;
      const bool is_read = read_.count(each->number) > 0;
      const absl::Status status = has_enough && !is_read ? CheckOpens(name_.directory, *each)
                                                         : CheckWholeOnce(each->number);
      if (absl::IsCancelled(status)) return status;
      if (!status.ok()) {
        TellOfDamaged(each->number, status);
      } else if (has_enough && each->number == furthest) {
        Print(absl::StrCat(CheckpointPath(name_.directory, furthest),
                           " stays: it is the furthest whole one: a job goes on from it"));
      } else if (has_enough && best && best->checkpoint().number() == each->number) {
        Print(absl::StrCat(CheckpointPath(name_.directory, each->number),
                           " stays: it has the state of the best ", DescribeBest(*best)));
      } else if (has_enough) {
        numbers_.push_back(each->number);
      } else {
        ++kept;
      }
    }
    std::reverse(numbers_.begin(), numbers_.end());
    return absl::OkStatus();
  }

  // What was left by a removal, or a checkpoint, that did not come to its end.
  absl::Status CollectGarbage() {
    // Whoever writes one now gives it a higher number than all that were there.
    const uint64_t newest = listed_.empty() ? 0 : listed_.back().number;
    const auto garbage = directory_.CollectGarbage(std::max(newest, folder_) + 1);
    MILLRACE_RETURN_IF_ERROR(garbage.status());
    garbage_ = *garbage;
    return folder_ == 0 ? absl::OkStatus() : TellOfRemoved(folder_);
  }

  void Print(const std::string& line) {
    if (!context_.flags.json) *context_.console.out << line << std::endl;
  }

  void TellOfDamaged(uint64_t number, const absl::Status& status) {
    damaged_.push_back({{"number", number}, {"problem", std::string(status.message())}});
    Print(absl::StrCat(CheckpointPath(name_.directory, number),
                       " stays and does not count as whole: ",
                       Printable(std::string(status.message())), "; to remove it give its path"));
  }

  absl::Status TellOfRemoved(uint64_t number) {
    const std::string path = CheckpointPath(name_.directory, number);
    if (!HasFiles(name_.directory, number)) {
      removed_.push_back(number);
      Print(absl::StrCat("removed ", path));
      return absl::OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(const ListedCheckpoints left, directory_.List());
    const FolderUse use = UseOf(left, number);
    if (number != folder_) removed_.push_back(number);
    left_.push_back(
        {{"number", number}, {"needed_by", use.needed_by}, {"unreadable", use.unreadable}});
    std::string why = "what else is in its folder stays";
    if (!use.needed_by.empty()) {
      why = absl::StrCat("its files that are needed by ", FoldersText(use.needed_by), " stay");
    } else if (!use.unreadable.empty()) {
      why = absl::StrCat("its files stay, as the manifest of ", FoldersText(use.unreadable),
                         " cannot be read, and may lead to them");
    }
    Print(
        absl::StrCat(number == folder_ ? "no checkpoint any more: " : "removed ", path, "; ", why));
    return absl::OkStatus();
  }

  void TellOfTheRest() {
    if (context_.flags.json) {
      const RmJson json = {{"removed", removed_},
                           {"left", left_},
                           {"damaged", damaged_},
                           {"garbage", {{"files", garbage_.files}, {"bytes", garbage_.bytes}}}};
      *context_.console.out << json.dump(-1, ' ', false, RmJson::error_handler_t::replace)
                            << std::endl;
    } else if (garbage_.files > 0) {
      Print(absl::StrCat("removed ", FormatCount(garbage_.files),
                         garbage_.files == 1 ? " file (" : " files (", FormatBytes(garbage_.bytes),
                         ") that no checkpoint needs"));
    } else if (removed_.empty() && left_.empty()) {
      Print("nothing to remove");
    }
  }

  const CommandContext& context_;
  const CheckpointName& name_;
  CheckpointDirectory directory_;
  CheckpointHold hold_;
  ListedCheckpoints listed_;               // When the command began.
  std::map<uint64_t, absl::Status> read_;  // By number: whether it is whole.
  std::vector<uint64_t> numbers_;
  uint64_t folder_ = 0;  // That is no checkpoint; 0: none.
  std::vector<uint64_t> removed_;
  RmJson left_ = RmJson::array();  // Folders.
  RmJson damaged_ = RmJson::array();
  CheckpointDirectory::Garbage garbage_;
};

}  // namespace

absl::StatusOr<ExitCode> RunCheckpointsRm(const CommandContext& context) {
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointName name, ParsePath(context.flags.path));
  MILLRACE_RETURN_IF_ERROR(CheckChoice(context.flags, name));
  return Remover(context, name).Run();
}

}  // namespace millrace::client
