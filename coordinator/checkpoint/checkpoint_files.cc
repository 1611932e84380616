#include "coordinator/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

using Listing = std::vector<CheckpointDirectory::Listed>;

// Empty where there is no directory yet.
absl::StatusOr<Listing> ListIn(const CheckpointDirectory& directory) {
  auto listing = directory.List();
  if (absl::IsNotFound(listing.status())) return Listing();
  return listing;
}

const CheckpointManifest* NewestReadable(const Listing& listing) {
  for (auto listed = listing.rbegin(); listed != listing.rend(); ++listed) {
    if (listed->manifest.ok()) return &*listed->manifest;
  }
  return nullptr;
}

std::string OfAnother(const std::string& directory, const CheckpointManifest& manifest) {
  return absl::StrCat("checkpoints.directory: '", directory, "' has checkpoints of job '",
                      manifest.job_id(), "' (the newest is ", CheckpointFolder(manifest.number()),
                      " at step ", manifest.step(), "), and belongs to that run; ");
}

}  // namespace

CheckpointInfo InfoOf(const std::string& directory, const CheckpointManifest& manifest) {
  CheckpointInfo info;
  info.set_directory(directory);
  info.set_number(manifest.number());
  info.set_step(manifest.step());
  *info.mutable_written() = manifest.written();
  uint64_t bytes = 0;
  for (const CheckpointShard& shard : manifest.shards()) bytes += shard.bytes();
  info.set_bytes(bytes);
  return info;
}

absl::Status CheckNewOwner(const FileSystemPtr& file_system, const JobSpec& spec) {
  const std::string& path = spec.checkpoints().directory();
  if (path.empty() || (spec.has_restore() && spec.restore().directory() == path)) {
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(CheckpointDirectory(file_system, path)));
  if (listing.empty()) return absl::OkStatus();
  const CheckpointManifest* newest = NewestReadable(listing);
  if (newest == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoints.directory: '", path,
                     "' has checkpoints that cannot be read; name another directory, or remove "
                     "them: ",
                     std::string(listing.back().manifest.status().message())));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(OfAnother(path, *newest), "name another directory, or go on from there with ",
                   "restore.directory: '", path, "' (millrace --restore=", path, ")"));
}

CheckpointFiles::CheckpointFiles(FileSystemPtr file_system, CheckpointSpec spec,
                                 CheckpointOwner owner)
    : file_system_(std::move(file_system)), spec_(std::move(spec)), owner_(std::move(owner)) {}

absl::Status CheckpointFiles::CheckOwner(const CheckpointManifest& manifest) const {
  const auto& earlier = owner_.earlier_job_ids;
  if (manifest.job_id() == owner_.job_id ||
      std::count(earlier.begin(), earlier.end(), manifest.job_id()) > 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(OfAnother(spec_.directory(), manifest),
                   "two runs must not share one: cancel one of them, or remove its checkpoints"));
}

absl::StatusOr<CheckpointFiles::Found> CheckpointFiles::LookAround() const {
  CheckpointDirectory directory(file_system_, spec_.directory());
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(directory));
  Found found;
  for (auto listed = listing.rbegin(); listed != listing.rend() && !found.newest; ++listed) {
    if (!listed->manifest.ok()) {
      found.trouble = std::string(listed->manifest.status().message());
    } else if (listed->manifest->job_id() == owner_.job_id) {
      found.newest = *listed->manifest;
    } else {
      break;
    }
  }
  const CheckpointManifest* newest = NewestReadable(listing);
  if (newest == nullptr) return found;
  MILLRACE_RETURN_IF_ERROR(CheckOwner(*newest));
  MILLRACE_RETURN_IF_ERROR(directory.CollectGarbage(/*in_progress=*/0).status());
  return found;
}

absl::StatusOr<CheckpointFiles::Begun> CheckpointFiles::Begin(uint64_t at_least, int shards) const {
  CheckpointDirectory directory(file_system_, spec_.directory());
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, ListIn(directory));
  Begun begun;
  if (const CheckpointManifest* newest = NewestReadable(listing); newest != nullptr) {
    MILLRACE_RETURN_IF_ERROR(CheckOwner(*newest));
    const bool same_shards = newest->job_id() == owner_.job_id && newest->shards_size() == shards;
    if (same_shards) begun.base = newest->number();
  }
  const auto garbage = directory.CollectGarbage(/*in_progress=*/0);
  LOG_IF(WARNING, !garbage.ok() && !absl::IsNotFound(garbage.status())) << garbage.status();
  MILLRACE_ASSIGN_OR_RETURN(begun.number, directory.Begin(at_least));
  return begun;
}

absl::StatusOr<std::string> CheckpointFiles::Commit(CheckpointManifest* manifest) const {
  CheckpointDirectory directory(file_system_, spec_.directory());
  MILLRACE_RETURN_IF_ERROR(directory.Commit(manifest));
  const absl::Status removed = RemoveOld();
  if (removed.ok()) return "";
  return absl::StrCat("old checkpoints cannot be removed: ", std::string(removed.message()));
}

absl::Status CheckpointFiles::RemoveOld() const {
  CheckpointDirectory directory(file_system_, spec_.directory());
  MILLRACE_ASSIGN_OR_RETURN(const Listing listing, directory.List());
  std::vector<WrittenCheckpoint> written;
  absl::Status status;
  for (const CheckpointDirectory::Listed& listed : listing) {
    if (listed.manifest.ok()) {
      written.push_back({listed.number, FromTimestamp(listed.manifest->written())});
    } else {
      status = listed.manifest.status();
    }
  }
  JobSpec spec;
  *spec.mutable_checkpoints() = spec_;
  const absl::Duration kept = CheckpointKeptPeriod(spec);
  const bool keeps_for_ever = kept < absl::InfiniteDuration();
  for (const uint64_t number : CheckpointsToRemove(written, CheckpointsToKeep(spec),
                                                   keeps_for_ever ? kept : absl::ZeroDuration())) {
    status.Update(directory.Remove(number));
  }
  return status;
}

absl::Status CheckpointFiles::GiveUp(uint64_t number) const {
  CheckpointDirectory directory(file_system_, spec_.directory());
  const absl::Status removed = directory.Remove(number);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  return directory.CollectGarbage(/*in_progress=*/0).status();
}

}  // namespace millrace::coordinator
