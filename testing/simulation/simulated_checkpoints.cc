#include "testing/simulation/simulated_checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_lineage.h"

namespace millrace::simulation {

uint64_t SimulatedCheckpoints::Begin(uint64_t at_least) {
  const uint64_t above = folders_.empty() ? 1 : folders_.rbegin()->first + 1;
  const uint64_t number = std::max(above, at_least);
  folders_[number];
  return number;
}

void SimulatedCheckpoints::CollectGarbage(uint64_t in_progress) {
  for (auto folder = folders_.begin(); folder != folders_.end();) {
    const bool stays = folder->second.manifest.has_value() || folder->first == in_progress;
    folder = stays ? std::next(folder) : folders_.erase(folder);
  }
}

absl::Status SimulatedCheckpoints::Commit(CheckpointManifest manifest) {
  const auto folder = folders_.find(manifest.number());
  if (folder == folders_.end() || folder->second.manifest.has_value()) {
    return absl::FailedPreconditionError("its folder is not there, or it is one already");
  }
  for (const CheckpointShard& shard : manifest.shards()) {
    if (folder->second.files.contains(shard.shard())) continue;
    return absl::FailedPreconditionError(absl::StrCat("shard ", shard.shard(), " has no file"));
  }
  manifest.set_checksum(absl::StrFormat("%032x", committed_.size() + 1));
  committed_[manifest.checksum()] = manifest;
  folder->second.manifest = std::move(manifest);
  return absl::OkStatus();
}

void SimulatedCheckpoints::GiveUp(uint64_t number) {
  const auto folder = folders_.find(number);
  if (folder != folders_.end() && !folder->second.manifest.has_value()) folders_.erase(folder);
}

void SimulatedCheckpoints::RemoveOld(uint32_t keep) {
  std::vector<WrittenCheckpoint> written;
  for (const auto& [number, folder] : folders_) {
    if (folder.manifest.has_value()) written.push_back({number, absl::UnixEpoch()});
  }
  for (const uint64_t number :
       CheckpointsToRemove(written, keep, /*keep_one_every=*/absl::ZeroDuration())) {
    folders_.erase(number);
  }
}

std::vector<CheckpointDirectory::Listed> SimulatedCheckpoints::List() const {
  std::vector<CheckpointDirectory::Listed> listed;
  for (const auto& [number, folder] : folders_) {
    if (folder.manifest.has_value()) listed.push_back({number, *folder.manifest});
  }
  return listed;
}

SimulatedCheckpoints::Found SimulatedCheckpoints::Find(uint64_t number) const {
  Found found;
  found.manifest = *folders_.at(number).manifest;
  found.reference.set_directory(kPath);
  found.reference.set_checkpoint(number);
  found.reference.set_manifest_checksum(found.manifest.checksum());
  return found;
}

absl::optional<SimulatedCheckpoints::Found> SimulatedCheckpoints::Furthest() const {
  const auto listed = FurthestFirst(List());
  if (listed.empty()) return absl::nullopt;
  return Find(listed.front().number);
}

bool SimulatedCheckpoints::Counts(const ShardRestore& checkpoint) const {
  const auto folder = folders_.find(checkpoint.checkpoint());
  return folder != folders_.end() && folder->second.manifest.has_value() &&
         folder->second.manifest->checksum() == checkpoint.manifest_checksum();
}

const CheckpointManifest* SimulatedCheckpoints::HasCounted(const ShardRestore& checkpoint) const {
  const auto found = committed_.find(checkpoint.manifest_checksum());
  return found == committed_.end() ? nullptr : &found->second;
}

absl::Status SimulatedCheckpoints::Write(uint64_t number, uint32_t shard, ShardFile file) {
  const auto folder = folders_.find(number);
  if (folder == folders_.end()) return absl::NotFoundError("the checkpoint's folder is not there");
  if (!folder->second.files.emplace(shard, std::move(file)).second) {
    return absl::AlreadyExistsError("the checkpoint has the shard's files already");
  }
  return absl::OkStatus();
}

absl::StatusOr<SimulatedCheckpoints::Read> SimulatedCheckpoints::ReadShard(
    const ShardRestore& checkpoint, uint32_t shard) const {
  if (!Counts(checkpoint)) return absl::NotFoundError("there is no such checkpoint");
  const Folder& folder = folders_.at(checkpoint.checkpoint());
  const auto file = folder.files.find(shard);
  if (file == folder.files.end()) return absl::DataLossError("the shard's file is not there");
  return Read{folder.manifest->shards(static_cast<int>(shard)), file->second};
}

}  // namespace millrace::simulation
