#include "coordinator/checkpoint/checkpoint_finder.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_lineage.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/evaluation_spec.h"
#include "common/safetensors/safetensors_file.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/restore_check.h"
#include "coordinator/checkpoint/restore_plan.h"
#include "coordinator/checkpoint/warm_start.h"
#include "rocksdb/file_system.h"

namespace millrace::coordinator {
namespace {

ShardRestore ReferenceTo(const std::string& directory, const CheckpointManifest& manifest) {
  ShardRestore reference;
  reference.set_directory(directory);
  reference.set_checkpoint(manifest.number());
  reference.set_manifest_checksum(manifest.checksum());
  return reference;
}

absl::StatusOr<std::vector<ShardRecord>> ReadRecords(const FileSystemPtr& file_system,
                                                     const std::string& directory,
                                                     const CheckpointManifest& manifest) {
  std::vector<ShardRecord> records;
  for (int shard = 0; shard < manifest.shards_size(); ++shard) {
    MILLRACE_ASSIGN_OR_RETURN(ShardRecord record, ReadShardRecord(file_system, directory, manifest,
                                                                  static_cast<uint32_t>(shard)));
    records.push_back(std::move(record));
  }
  return records;
}

// The statuses of a disk that fails now, rather than of what is on it.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Whose checkpoints of the same directory are newer than the one that is restored.
absl::Status FindLeftBehind(const FileSystemPtr& file_system, const std::string& directory,
                            uint64_t number, RestoredFrom& from) {
  MILLRACE_ASSIGN_OR_RETURN(const auto listed, CheckpointDirectory(file_system, directory).List());
  std::set<std::string> job_ids;
  for (const CheckpointDirectory::Listed& one : listed) {
    if (one.number > number && one.manifest.ok()) job_ids.insert(one.manifest->job_id());
  }
  from.mutable_left_behind_job_ids()->Assign(job_ids.begin(), job_ids.end());
  return absl::OkStatus();
}

// Whether both ask for the same of evaluations: the metric that decides, and which is better.
template <typename Spec>
bool AskTheSame(const Spec& ours, const Spec& theirs) {
  return MetricOf(ours) == MetricOf(theirs) && LargerIsBetter(MetricOf(ours), ours.goal()) ==
                                                   LargerIsBetter(MetricOf(theirs), theirs.goal());
}

// A job that was stopped early and is to go on has all of its patience again.
void CarryStopping(const JobSpec& spec, const CheckpointManifest& manifest, RestoredFrom& from) {
  const EvaluationSpec& ours = spec.evaluation();
  const EvaluationSpec& theirs = manifest.spec().evaluation();
  if (!manifest.has_stopping() || !ours.has_early_stopping() ||
      !AskTheSame(ours.early_stopping(), theirs.early_stopping())) {
    return;
  }
  *from.mutable_stopping() = manifest.stopping();
  from.set_evaluated(manifest.evaluated());
  if (manifest.has_stopped_early()) from.mutable_stopping()->set_evaluations_since(0);
}

// The best evaluation up to the manifest's state, as its job has told last: a checkpoint of an
// earlier state may have been written after it, since that was the best.
BestEvaluation BestUpTo(const FileSystemPtr& file_system, const std::string& directory,
                        const CheckpointManifest& manifest) {
  BestEvaluation best = manifest.best();
  const auto listed = CheckpointDirectory(file_system, directory).List();
  if (!listed.ok()) return best;
  for (const CheckpointDirectory::Listed& one : *listed) {
    if (one.number <= manifest.number() || !one.manifest.ok()) continue;
    const bool is_of_it =
        one.manifest->job_id() == manifest.job_id() && one.manifest->step() <= manifest.step();
    if (is_of_it && one.manifest->has_best()) best = one.manifest->best();
  }
  return best;
}

// REQUIRES: the job's own checkpoints are in the same directory.
void CarryBest(const FileSystemPtr& file_system, const JobSpec& spec,
               const CheckpointManifest& manifest, RestoredFrom& from) {
  const EvaluationSpec& ours = spec.evaluation();
  const EvaluationSpec& theirs = manifest.spec().evaluation();
  if (!ours.has_keep_best() || !AskTheSame(ours.keep_best(), theirs.keep_best())) return;
  const std::string& directory = spec.restore().directory();
  const BestEvaluation best = BestUpTo(file_system, directory, manifest);
  if (best.metric().empty()) return;
  const auto there = ReadManifest(file_system, directory, best.checkpoint().number());
  if (!there.ok() || there->step() != best.step()) return;
  *from.mutable_best() = best;
  from.mutable_best()->mutable_checkpoint()->set_directory(spec.checkpoints().directory());
}

absl::Status WithPath(const char* path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

absl::StatusOr<RestoredFrom> RestoreOf(const FileSystemPtr& file_system, const JobSpec& spec,
                                       uint64_t number) {
  const std::string& directory = spec.restore().directory();
  const auto opened = Checkpoint::Open(file_system, directory, number);
  if (!opened.ok()) return WithPath("restore", opened.status());
  const CheckpointManifest& manifest = (*opened)->manifest();
  MILLRACE_RETURN_IF_ERROR(CheckRestoredSpec(spec, manifest));
  RestoredFrom from;
  *from.mutable_checkpoint() = ReferenceTo(directory, manifest);
  from.set_job_id(manifest.job_id());
  *from.mutable_earlier_job_ids() = manifest.earlier_job_ids();
  from.set_step(manifest.step());
  *from.mutable_plan() = manifest.plan();
  CarryStopping(spec, manifest, from);
  if (NormalDirectory(spec.checkpoints().directory()) == NormalDirectory(directory)) {
    MILLRACE_RETURN_IF_ERROR(FindLeftBehind(file_system, directory, number, from));
    CarryBest(file_system, spec, manifest, from);
  }
  if (manifest.exact()) return from;
  const auto records = ReadRecords(file_system, directory, manifest);
  if (!records.ok()) return WithPath("restore", records.status());
  MILLRACE_ASSIGN_OR_RETURN(const auto boundaries, FindBoundaries(manifest, *records));
  from.mutable_boundaries()->Assign(boundaries.begin(), boundaries.end());
  return from;
}

// False too of what cannot be looked at: who opens it as a file is told why.
bool IsDirectory(const FileSystemPtr& file_system, const std::string& path) {
  bool is_directory = false;
  return file_system->IsDirectory(path, rocksdb::IOOptions(), &is_directory, nullptr).ok() &&
         is_directory;
}

absl::StatusOr<StoredShapes> ShapesOf(const FileSystemPtr& file_system, const std::string& path,
                                      uint64_t* checkpoint) {
  StoredShapes shapes;
  // A file, or a directory of checkpoints: the spec does not say which.
  if (*checkpoint > 0 || IsDirectory(file_system, path)) {
    MILLRACE_ASSIGN_OR_RETURN(const auto opened, Checkpoint::Open(file_system, path, *checkpoint));
    for (const auto& variable : opened->variables()) {
      shapes.shapes[variable.name] = variable.shape;
    }
    *checkpoint = opened->manifest().number();
    shapes.where = absl::StrCat("checkpoint ", CheckpointFolder(*checkpoint), " at step ",
                                opened->manifest().step(), " in ", path);
    return shapes;
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto file, SafetensorsReader::Open(file_system, path));
  shapes.where = path;
  for (const SafetensorsEntry& tensor : file.header().tensors) {
    if (IsReadableAsFloat(tensor.dtype)) {
      shapes.shapes[tensor.name] = tensor.shape;
    } else {
      shapes.unreadable[tensor.name] = tensor.dtype;
    }
  }
  return shapes;
}

}  // namespace

std::string NameOf(const ShardRestore& checkpoint) {
  return CheckpointPath(checkpoint.directory(), checkpoint.checkpoint());
}

absl::StatusOr<FoundRestore> FindRestore(const FileSystemPtr& file_system, const JobSpec& spec,
                                         uint64_t before) {
  const std::string& directory = spec.restore().directory();
  const uint64_t named = spec.restore().checkpoint();
  FoundRestore found;
  if (named > 0) {
    auto from = RestoreOf(file_system, spec, named);
    if (absl::IsDataLoss(from.status())) {
      const std::string damage(from.status().message());
      return absl::DataLossError(
          absl::StrCat(damage, OfferOneBefore(file_system, directory, named, damage)));
    }
    MILLRACE_RETURN_IF_ERROR(from.status());
    found.from = *std::move(from);
    return found;
  }
  auto listed = CheckpointDirectory(file_system, directory).List();
  if (!listed.ok()) return WithPath("restore", listed.status());
  for (const CheckpointDirectory::Listed& one :
       FurthestFirst(LeadingUpTo(before, *std::move(listed)))) {
    if (one.number == before) continue;
    auto from = RestoreOf(file_system, spec, one.number);
    if (absl::IsDataLoss(from.status())) {
      found.damaged.push_back(std::string(from.status().message()));
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(from.status());
    found.from = *std::move(from);
    return found;
  }
  if (!found.damaged.empty()) {
    return absl::DataLossError(absl::StrCat("no checkpoint in ", directory,
                                            " can be used: ", absl::StrJoin(found.damaged, "; ")));
  }
  return absl::NotFoundError(absl::StrCat("restore: there is no ", before > 0 ? "other " : "",
                                          "checkpoint in ", directory));
}

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const FileSystemPtr& file_system,
                                               const std::string& directory,
                                               const std::string& job_id, uint64_t written,
                                               const std::set<uint64_t>& damaged) {
  FoundCheckpoint found;
  auto listed = CheckpointDirectory(file_system, directory).List();
  if (!listed.ok() && !absl::IsNotFound(listed.status())) return listed.status();
  if (!listed.ok() || listed->empty()) {
    if (written > 0) {
      return absl::UnavailableError(absl::StrCat(
          directory, " has no checkpoints, although the job has written ",
          CheckpointFolder(written), " there: is it mounted where the coordinator runs?"));
    }
    found.why_none = absl::StrCat(
        "the job has written no checkpoint yet in ", directory,
        "; only the data directory that was there before has what is lost: start the ps server "
        "with that one, or cancel the job");
    return found;
  }
  const auto is_none = [&](const CheckpointDirectory::Listed& one) {
    return damaged.contains(one.number) || (one.manifest.ok() && one.manifest->job_id() != job_id);
  };
  listed->erase(std::remove_if(listed->begin(), listed->end(), is_none), listed->end());
  for (const CheckpointDirectory::Listed& one : FurthestFirst(*std::move(listed))) {
    const auto opened = one.manifest.ok() ? Checkpoint::Open(file_system, directory, one.number)
                                          : one.manifest.status();
    if (MayPass(opened.status())) return opened.status();
    if (!opened.ok()) {
      found.damaged[one.number] = std::string(opened.status().message());
      continue;
    }
    found.checkpoint = ReferenceTo(directory, (*opened)->manifest());
    found.step = (*opened)->manifest().step();
    return found;
  }
  const auto why = [](std::string* out, const auto& one) { out->append(one.second); };
  found.why_none = found.damaged.empty()
                       ? absl::StrCat("there is no ", damaged.empty() ? "" : "other ",
                                      "checkpoint of the job in ", directory)
                       : absl::StrCat("no checkpoint of the job in ", directory,
                                      " can be used: ", absl::StrJoin(found.damaged, "; ", why));
  return found;
}

bool IsRemoved(const FileSystemPtr& file_system, const ShardRestore& checkpoint) {
  const auto manifest = ReadManifest(file_system, checkpoint.directory(), checkpoint.checkpoint());
  if (manifest.ok()) return manifest->checksum() != checkpoint.manifest_checksum();
  return absl::IsNotFound(manifest.status());
}

std::string OfferOneBefore(const FileSystemPtr& file_system, const std::string& directory,
                           uint64_t number, const std::string& damage) {
  const auto before = FindOneBefore(file_system, directory, number, damage);
  if (!before) return "";
  return absl::StrCat("; --restore=", CheckpointPath(directory, before->number()),
                      " goes on from the one before, at step ", before->step());
}

absl::StatusOr<FoundWarmStart> FindWarmStart(const FileSystemPtr& file_system, const JobSpec& spec,
                                             const JobPlan& plan) {
  const WarmStartSpec& from = spec.warm_start();
  uint64_t checkpoint = from.checkpoint();
  const auto shapes = ShapesOf(file_system, from.path(), &checkpoint);
  if (!shapes.ok()) return WithPath("warm_start.path", shapes.status());
  MILLRACE_ASSIGN_OR_RETURN(WarmStart start, MatchTensors(from, plan, *shapes));
  FoundWarmStart found;
  found.notice = std::move(start.notice);
  for (std::string& name : start.tensors) {
    StoredTensor& tensor = found.tensors.emplace_back();
    if (name.empty()) continue;
    tensor.set_path(from.path());
    tensor.set_checkpoint(checkpoint);
    tensor.set_name(std::move(name));
  }
  return found;
}

}  // namespace millrace::coordinator
