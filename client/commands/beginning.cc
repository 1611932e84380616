#include "client/commands/beginning.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/commands/checkpoint_choice.h"
#include "client/progress/format.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/restore_check.h"

namespace millrace::client {
namespace {

// The newest one that opens; null: the directory has none at all. Says which newer ones do not.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenNewestWhole(const std::string& directory,
                                                            std::vector<std::string>* notes) {
  auto listed = CheckpointDirectory(RealFileSystem(), directory).List();
  if (absl::IsNotFound(listed.status())) return nullptr;
  MILLRACE_RETURN_IF_ERROR(listed.status());
  if (listed->empty()) return nullptr;
  std::reverse(listed->begin(), listed->end());
  for (const CheckpointDirectory::Listed& each : *listed) {
    auto opened = OpenCheckpoint({directory, each.number});
    if (opened.ok()) return opened;
    if (!absl::IsDataLoss(opened.status())) return opened.status();
    notes->push_back(absl::StrCat(
        "Checkpoint ", CheckpointFolder(each.number),
        " cannot be used, and the one before is taken: ", std::string(opened.status().message())));
  }
  return absl::DataLossError(
      absl::StrCat("no checkpoint in ", directory, " is whole: ", notes->back(),
                   " See `millrace checkpoints verify`; to train anew give the job another "
                   "directory of checkpoints"));
}

// Whether the restore that the job asks for lies behind the checkpoint: it is of a job that went on
// from there.
bool IsBehind(const RestoreSpec& restore, const CheckpointManifest& manifest) {
  const auto from = OpenCheckpoint({restore.directory(), restore.checkpoint()});
  if (!from.ok()) return false;
  const std::string& job_id = (*from)->manifest().job_id();
  return std::find(manifest.earlier_job_ids().begin(), manifest.earlier_job_ids().end(), job_id) !=
         manifest.earlier_job_ids().end();
}

absl::Status Explain(const absl::Status& mismatch, const std::string& directory) {
  return absl::Status(
      mismatch.code(),
      absl::StrCat("the checkpoints in ", directory,
                   " are of another job: ", std::string(mismatch.message()),
                   ". Go on with the job as it was, or give this one a directory of its own "
                   "(--checkpoints); `millrace checkpoints show ",
                   directory, "` tells what is there"));
}

std::string EndedNote(const std::string& directory, const CheckpointManifest& manifest) {
  return absl::StrCat("The job has ended before: checkpoint ", CheckpointFolder(manifest.number()),
                      " in ", directory, " has all of its ", FormatCount(manifest.step()),
                      " steps. To train on, raise epochs or steps; to train anew, give it another "
                      "directory of checkpoints.");
}

}  // namespace

absl::StatusOr<Beginning> FindBeginning(const JobSpec& spec) {
  Beginning beginning;
  beginning.spec = spec;
  const std::string& directory = spec.checkpoints().directory();
  if (directory.empty()) return beginning;
  if (spec.has_restore() && spec.restore().directory() == directory) return beginning;
  MILLRACE_ASSIGN_OR_RETURN(auto checkpoint, OpenNewestWhole(directory, &beginning.notes));
  if (checkpoint == nullptr) return beginning;
  const CheckpointManifest& manifest = checkpoint->manifest();
  // The coordinator refuses it, as it should.
  if (spec.has_restore() && !IsBehind(spec.restore(), manifest)) return beginning;
  const absl::Status agrees = coordinator::CheckRestoredSpec(spec, manifest);
  if (!agrees.ok()) return Explain(agrees, directory);
  beginning.spec.clear_warm_start();
  beginning.spec.mutable_restore()->set_directory(directory);
  beginning.spec.mutable_restore()->set_checkpoint(manifest.number());
  if (manifest.step() >= TotalSteps(spec, manifest.plan().train_examples())) {
    beginning.notes.push_back(EndedNote(directory, manifest));
    beginning.ended = std::move(checkpoint);
  } else {
    beginning.notes.push_back(absl::StrCat("Goes on at step ", FormatCount(manifest.step()),
                                           " from checkpoint ", CheckpointFolder(manifest.number()),
                                           " in ", directory, "."));
  }
  return beginning;
}

}  // namespace millrace::client
