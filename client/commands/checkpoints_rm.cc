#include "client/commands/checkpoints_rm.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/commands/best.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/checkpoint_folders.h"
#include "client/progress/format.h"
#include "common/checkpoint/checkpoint_lineage.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_hold.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::millrace::coordinator::CheckpointHold;
using ::millrace::coordinator::Holder;
using ::millrace::coordinator::HolderOf;
using ::millrace::coordinator::kRemovingCommand;
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

// `may`: what the job that has the directory may do with the checkpoint.
absl::Status NeededByJob(const std::string& path, const std::string& held, const char* may) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " stays for now: ", held, ", which may ", may,
                   "; have a further one written first (millrace checkpoint JOB_ID), or wait for "
                   "that job's end, or cancel it"));
}

ListedCheckpoints UpTo(uint64_t number, const ListedCheckpoints& listed) {
  ListedCheckpoints up_to;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(up_to),
               [number](const auto& each) { return each.number <= number; });
  return up_to;
}

// What is taken for a job that goes on from `number` and has none of its own, in this order: that
// one, and where it is damaged what led up to it.
ListedCheckpoints InOrderFrom(uint64_t number, const ListedCheckpoints& listed) {
  ListedCheckpoints order = FurthestFirst(LeadingUpTo(number, listed));
  std::stable_partition(order.begin(), order.end(),
                        [number](const auto& each) { return each.number == number; });
  return order;
}

// One command's work. What is to go is chosen twice: to read values may take minutes, in which the
// directory must not be held, and in which a job may begin there, or write a checkpoint, or another
// command remove some. What was read is not read again.
class Remover {
 public:
  Remover(const CommandContext& context, const CheckpointName& name)
      : context_(context),
        name_(name),
        directory_(RealFileSystem(), name.directory),
        hold_(RealFileSystem(), name.directory) {}

  absl::StatusOr<ExitCode> Run() {
    MILLRACE_RETURN_IF_ERROR(Choose());
    holder_ = HoldOrSee();
    MILLRACE_RETURN_IF_ERROR(Choose());
    MILLRACE_RETURN_IF_ERROR(CheckNotNeededByHolder());
    for (const std::string& line : why_they_stay_) Print(line);
    for (const uint64_t number : numbers_) MILLRACE_RETURN_IF_ERROR(Remove(number));
    MILLRACE_RETURN_IF_ERROR(CollectGarbage());
    TellOfTheRest();
    return ExitCode::kSucceeded;
  }

 private:
  // From here on no job begins in the directory, unless another one has it: that goes on meanwhile.
  Holder HoldOrSee() { return HolderOf(hold_.Take(kRemovingCommand, /*makes_directory=*/false)); }

  absl::Status Choose() {
    MILLRACE_ASSIGN_OR_RETURN(listed_, directory_.List());
    numbers_.clear();
    why_they_stay_.clear();
    folder_ = 0;
    if (context_.flags.keep > 0) return ChooseAllButTheNewest();
    const bool is_listed = std::any_of(listed_.begin(), listed_.end(), [this](const auto& each) {
      return each.number == name_.number;
    });
    if (!is_listed) {
      folder_ = name_.number;
      return CheckFolderMayGo(context_.flags, name_, listed_);
    }
    numbers_ = {name_.number};
    if (context_.flags.force) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(CheckNotBest());
    return CheckNotFurthestWhole();
  }

  // Whether another job has the directory that has written no checkpoint there.
  bool HolderHasNone() const {
    if (holder_.held.empty()) return false;
    for (auto each = listed_.rbegin(); each != listed_.rend(); ++each) {
      if (!each->manifest.ok()) continue;
      return holder_.job_id.empty() || each->manifest->job_id() != holder_.job_id;
    }
    return true;
  }

  // In which order they are taken for what the job that has the directory goes on from.
  ListedCheckpoints InOrderOfHolder() const {
    return HolderHasNone() ? InOrderFrom(holder_.restored, listed_) : InOrderOfUse(listed_);
  }

  // Only what the one may need that has the directory stays, with --force too.
  absl::Status CheckNotNeededByHolder() {
    if (holder_.held.empty() || (numbers_.empty() && folder_ == 0)) return absl::OkStatus();
    if (holder_.is_command) {
      return absl::FailedPreconditionError(
          absl::StrCat("nothing is removed for now: ", holder_.held, "; wait for its end"));
    }
    const std::string path = CheckpointPath(name_.directory, name_.number);
    if (folder_ != 0) {
      return IsAbandoned(name_.directory, listed_, folder_)
                 ? absl::OkStatus()
                 : NeededByJob(path, holder_.held, "be writing it");
    }
    if (HolderHasNone() && holder_.restored == 0) return WhichItNeedsIsUnknown();
    if (name_.number == 0) return absl::OkStatus();  // They were chosen so.
    if (!HolderHasNone() && name_.number == listed_.back().number) {
      return NeededByJob(path, holder_.held,
                         "go on from it, and refer to its files in the next one");
    }
    const Need need = NeedOf(InOrderOfHolder());
    if (need.may_go) return absl::OkStatus();
    if (absl::IsCancelled(need.whole)) return need.whole;
    return NeededByJob(path, holder_.held, "go on from it");
  }

  absl::Status WhichItNeedsIsUnknown() const {
    return absl::FailedPreconditionError(absl::StrCat(
        "nothing is removed for now: ", holder_.held,
        ", which has no checkpoint there yet, and may go on from any of these; have one written "
        "first (millrace checkpoint JOB_ID), or wait for that job's end, or cancel it"));
  }

  // Whether the named one is what a job goes on from.
  struct Need {
    bool may_go = false;  // A further one is whole, or it is damaged itself.
    absl::Status whole;   // Whether it is. CANCELLED: interrupted.
  };
  // Reads the values of further ones in `order`, until one is whole.
  Need NeedOf(const ListedCheckpoints& order) {
    for (const CheckpointDirectory::Listed& each : order) {
      if (each.number == name_.number) break;
      const absl::Status whole = CheckWholeOnce(each.number);
      if (whole.ok() || absl::IsCancelled(whole)) return {whole.ok(), whole};
    }
    const absl::Status itself = CheckWholeOnce(name_.number);
    return {absl::IsDataLoss(itself), itself};
  }

  absl::Status CheckNotFurthestWhole() {
    const Need need = NeedOf(InOrderOfUse(listed_));
    if (need.may_go) return absl::OkStatus();
    if (absl::IsCancelled(need.whole)) return need.whole;
    const std::string path = CheckpointPath(name_.directory, name_.number);
    if (need.whole.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " is the furthest whole checkpoint: a job goes on from it; --force removes it"));
    }
    return absl::Status(need.whole.code(),
                        absl::StrCat("there is no further whole checkpoint than ", path,
                                     ", which may be whole: ", std::string(need.whole.message()),
                                     "; --force removes it"));
  }

  // Whether it has the state of the best evaluation of the run whose checkpoints these are, or of
  // what the job that has the directory goes on from.
  absl::optional<BestEvaluation> BestAt(uint64_t number) const {
    absl::optional<BestEvaluation> best = BestIn(listed_);
    if (best && best->checkpoint().number() == number) return best;
    if (!HolderHasNone()) return absl::nullopt;
    best = BestIn(UpTo(holder_.restored, listed_));
    return best && best->checkpoint().number() == number ? best : absl::nullopt;
  }

  absl::Status CheckNotBest() const {
    const auto best = BestAt(name_.number);
    if (!best) return absl::OkStatus();
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
  absl::StatusOr<uint64_t> FindFurthestWhole(const ListedCheckpoints& order) {
    for (const CheckpointDirectory::Listed& each : order) {
      const absl::Status whole = CheckWholeOnce(each.number);
      if (absl::IsCancelled(whole)) return whole;
      if (whole.ok()) return each.number;
    }
    return uint64_t{0};
  }

  // Of what the newest ones do not include. "": it may go.
  std::string WhyItStays(uint64_t number, uint64_t furthest, uint64_t of_holder) const {
    if (number == furthest) return "it is the furthest whole one: a job goes on from it";
    if (number == of_holder) return absl::StrCat(holder_.held, ", which may go on from it");
    const auto best = BestAt(number);
    return best ? absl::StrCat("it has the state of the best ", DescribeBest(*best)) : "";
  }

  // Reads the values of those that stay. Damaged ones go only by their names.
  absl::Status ChooseAllButTheNewest() {
    int kept = 0;
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t furthest, FindFurthestWhole(InOrderOfUse(listed_)));
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t of_holder, FindFurthestWhole(InOrderOfHolder()));
    for (auto each = listed_.rbegin(); each != listed_.rend(); ++each) {
      const bool has_enough = kept == context_.flags.keep;
      const bool is_read = read_.count(each->number) > 0;
      const absl::Status status = has_enough && !is_read ? CheckOpens(name_.directory, *each)
                                                         : CheckWholeOnce(each->number);
      if (absl::IsCancelled(status)) return status;
      if (!status.ok()) {
        TellOfDamaged(each->number, status);
      } else if (!has_enough) {
        ++kept;
      } else if (const std::string why = WhyItStays(each->number, furthest, of_holder);
                 !why.empty()) {
        why_they_stay_.push_back(
            absl::StrCat(CheckpointPath(name_.directory, each->number), " stays: ", why));
      } else {
        numbers_.push_back(each->number);
      }
    }
    std::reverse(numbers_.begin(), numbers_.end());
    return absl::OkStatus();
  }

  // Another one may have got the directory meanwhile, and may need what was chosen.
  absl::Status Remove(uint64_t number) {
    if (context_.interrupt->triggered()) return absl::CancelledError("interrupted");
    if (const std::string held = HoldOrSee().held; held != holder_.held) {
      return absl::UnavailableError(absl::StrCat(
          CheckpointPath(name_.directory, number), " stays for now: ",
          held.empty() ? "the job that had the directory has ended" : held, "; try again"));
    }
    const absl::Status removed = directory_.Remove(number);
    // Somebody else may have been faster.
    if (!absl::IsNotFound(removed)) MILLRACE_RETURN_IF_ERROR(removed);
    return TellOfRemoved(number);
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

  // Once.
  void TellOfDamaged(uint64_t number, const absl::Status& status) {
    if (!told_of_.insert(number).second) return;
    damaged_.push_back({{"number", number}, {"problem", std::string(status.message())}});
    Print(absl::StrCat(CheckpointPath(name_.directory, number),
                       " stays and does not count as whole: ",
                       Printable(std::string(status.message())), "; to remove it give its path"));
  }

  absl::Status TellOfRemoved(uint64_t number) {
    const std::string path = CheckpointPath(name_.directory, number);
    if (!HasFiles(name_.directory, number)) {
      removed_.push_back(number);
      std::error_code error;
      const bool is_there = std::filesystem::exists(path, error);
      Print(absl::StrCat("removed ", path,
                         is_there ? "; its empty folder stays until there is one of a higher "
                                    "number, so that none is given twice"
                                  : ""));
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
  Holder holder_;                          // Another one that has the directory.
  ListedCheckpoints listed_;               // When it was chosen.
  std::map<uint64_t, absl::Status> read_;  // By number: whether it is whole.
  std::vector<uint64_t> numbers_;
  uint64_t folder_ = 0;  // That is no checkpoint; 0: none.
  std::vector<std::string> why_they_stay_;
  std::set<uint64_t> told_of_;  // Damaged ones.
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
