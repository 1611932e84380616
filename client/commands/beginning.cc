#include "client/commands/beginning.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/commands/checkpoint_choice.h"
#include "client/progress/format.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/evaluation_spec.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/restore_check.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::client {
namespace {

using ::google::protobuf::util::MessageDifferencer;

// Whether the restore that the job asks for lies behind the checkpoint: it is of a job that went on
// from there.
bool IsBehind(const RestoreSpec& restore, const CheckpointManifest& manifest) {
  const auto from = OpenCheckpoint({restore.directory(), restore.checkpoint()});
  if (!from.ok()) return false;
  const std::string& job_id = (*from)->manifest().job_id();
  return std::find(manifest.earlier_job_ids().begin(), manifest.earlier_job_ids().end(), job_id) !=
         manifest.earlier_job_ids().end();
}

bool IsSame(const RestoreSpec& a, const RestoreSpec& b) {
  return NormalDirectory(a.directory()) == NormalDirectory(b.directory()) &&
         a.checkpoint() == b.checkpoint();
}

bool IsGone(const RestoreSpec& restore) {
  return absl::IsNotFound(
      ReadManifest(RealFileSystem(), restore.directory(), restore.checkpoint()).status());
}

// The same for a checkpoint of the job's own directory: `own`, or one that it goes on from,
// restored what the job asks for. Those between may have been removed by now.
bool HasGoneOn(const RestoreSpec& restore, const CheckpointManifest& own) {
  if (restore.checkpoint() == 0) return false;
  CheckpointManifest manifest = own;
  while (manifest.spec().has_restore()) {
    const RestoreSpec before = manifest.spec().restore();
    if (IsSame(before, restore)) return true;
    const bool is_here =
        NormalDirectory(before.directory()) == NormalDirectory(restore.directory());
    if (!is_here || before.checkpoint() == 0 || before.checkpoint() >= manifest.number()) break;
    auto next = ReadManifest(RealFileSystem(), restore.directory(), before.checkpoint());
    if (!next.ok()) return IsGone(restore) || IsBehind(restore, own);
    manifest = *std::move(next);
  }
  return false;
}

// Whether no newer one in its directory has more steps: those may be of the best
// evaluation, or of a run that went back. What cannot be read is told by who restores.
bool IsFurthestFromThereOn(const RestoreSpec& restore) {
  const auto listed = CheckpointDirectory(RealFileSystem(), restore.directory()).List();
  if (!listed.ok()) return false;
  absl::optional<uint64_t> step;
  for (const CheckpointDirectory::Listed& one : *listed) {
    if (!one.manifest.ok() || one.number < restore.checkpoint()) continue;
    if (one.number == restore.checkpoint()) step = one.manifest->step();
    if (!step || one.manifest->step() > *step) return false;
  }
  return step.has_value();
}

std::string LeftBehindNote(const RestoreSpec& restore, const CheckpointManifest& newest) {
  return absl::StrCat(IsFurthestFromThereOn(restore) ? "Goes on from" : "Goes back to",
                      " checkpoint ", CheckpointFolder(restore.checkpoint()), " in ",
                      restore.directory(), "; newer ones up to ", CheckpointFolder(newest.number()),
                      " at step ", FormatCount(newest.step()),
                      " stay there as long as they are kept, and the next ones come after them.");
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

// One that was stopped early has ended for who asks for the same stopping, and for no more steps
// than it was to have.
bool HasEndedAs(const JobSpec& spec, const CheckpointManifest& manifest) {
  // One that has all steps may have been stopped in its last evaluation.
  if (!manifest.ended()) return false;
  const uint64_t steps = TotalSteps(spec, manifest.plan().train_examples());
  if (manifest.step() >= steps) return true;
  return manifest.has_stopped_early() && manifest.stopped_early().total_steps() >= steps &&
         MessageDifferencer::Equals(spec.evaluation().early_stopping(),
                                    manifest.spec().evaluation().early_stopping());
}

std::string EndedNote(const std::string& directory, const CheckpointManifest& manifest) {
  if (manifest.has_stopped_early()) {
    return absl::StrCat("The job has ended before: it was ", DescribeStop(manifest.stopped_early()),
                        " (checkpoint ", CheckpointFolder(manifest.number()), " in ", directory,
                        "). To train on, raise epochs or steps, or change "
                        "evaluation.early_stopping; to train anew, give it another directory of "
                        "checkpoints.");
  }
  return absl::StrCat("The job has ended before: checkpoint ", CheckpointFolder(manifest.number()),
                      " in ", directory, " has all of its ", FormatCount(manifest.step()),
                      " steps. To train on, raise epochs or steps; to train anew, give it another "
                      "directory of checkpoints.");
}

absl::Status GoOnFrom(std::unique_ptr<Checkpoint> checkpoint, Beginning& beginning) {
  JobSpec& spec = beginning.spec;
  const CheckpointManifest& manifest = checkpoint->manifest();
  const std::string directory = spec.checkpoints().directory();
  const absl::Status agrees = coordinator::CheckRestoredSpec(spec, manifest);
  if (!agrees.ok()) return Explain(agrees, directory);
  spec.clear_warm_start();
  spec.mutable_restore()->set_directory(directory);
  spec.mutable_restore()->set_checkpoint(manifest.number());
  if (HasEndedAs(spec, manifest)) {
    beginning.notes.push_back(EndedNote(directory, manifest));
    beginning.ended = std::move(checkpoint);
  } else {
    beginning.notes.push_back(absl::StrCat("Goes on at step ", FormatCount(manifest.step()),
                                           " from checkpoint ", CheckpointFolder(manifest.number()),
                                           " in ", directory, "."));
  }
  return absl::OkStatus();
}

// Of the newest checkpoint that can be read at all.
absl::optional<CheckpointManifest> NewestManifest(const std::string& directory) {
  auto listed = CheckpointDirectory(RealFileSystem(), directory).List();
  if (!listed.ok()) return absl::nullopt;  // What is wrong is told by who restores.
  for (auto each = listed->rbegin(); each != listed->rend(); ++each) {
    if (each->manifest.ok()) return *std::move(each->manifest);
  }
  return absl::nullopt;
}

// REQUIRES: the restore is of the job's own directory.
absl::StatusOr<Beginning> FindOwnBeginning(const JobSpec& spec, const Reading& reading) {
  Beginning beginning;
  beginning.spec = spec;
  const RestoreSpec& restore = spec.restore();
  if (restore.checkpoint() == 0) return beginning;
  const auto newest = NewestManifest(spec.checkpoints().directory());
  if (!newest) return beginning;
  if (HasGoneOn(restore, *newest)) {
    MILLRACE_ASSIGN_OR_RETURN(auto furthest,
                              OpenFurthestWhole(spec.checkpoints().directory(), reading));
    if (furthest != nullptr && HasGoneOn(restore, furthest->manifest())) {
      MILLRACE_RETURN_IF_ERROR(GoOnFrom(std::move(furthest), beginning));
    }
  } else if (restore.checkpoint() < newest->number()) {
    beginning.notes.push_back(LeftBehindNote(restore, *newest));
  }
  return beginning;
}

}  // namespace

absl::StatusOr<Beginning> FindBeginning(const JobSpec& spec, const Reading& reading) {
  Beginning beginning;
  beginning.spec = spec;
  const std::string& directory = spec.checkpoints().directory();
  if (directory.empty()) return beginning;
  const bool is_own = spec.has_restore() &&
                      NormalDirectory(spec.restore().directory()) == NormalDirectory(directory);
  if (is_own) return FindOwnBeginning(spec, reading);
  MILLRACE_ASSIGN_OR_RETURN(auto furthest, OpenFurthestWhole(directory, reading));
  if (furthest == nullptr) return beginning;
  // The coordinator refuses it, as it should.
  if (spec.has_restore() && !IsBehind(spec.restore(), furthest->manifest())) return beginning;
  MILLRACE_RETURN_IF_ERROR(GoOnFrom(std::move(furthest), beginning));
  return beginning;
}

}  // namespace millrace::client
