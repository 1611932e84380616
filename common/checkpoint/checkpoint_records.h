// The manifest of a checkpoint and the records of its shards, as text. What is parsed is checked:
// whoever has such a message may rely on its paths, numbers and checksums being possible ones.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_RECORDS_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/durable_file.h"
#include "protos/checkpoint.pb.h"

namespace millrace {

inline constexpr uint32_t kCheckpointFormatVersion = 1;
// Elements of a StoredBlock.
inline constexpr uint32_t kMaxBlockElements = 1 << 18;

// Sets `checksum` and `format_version`. INVALID_ARGUMENT: it could not be parsed again.
absl::StatusOr<std::string> EncodeManifest(CheckpointManifest* manifest);
absl::StatusOr<std::string> EncodeShardRecord(const ShardRecord& record);

// `path` is for messages. DATA_LOSS: damaged; FAILED_PRECONDITION: of a newer format.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& path, absl::string_view text);
// `arrays`: the values and the slots of the manifest.
absl::StatusOr<ShardRecord> ParseShardRecord(const std::string& path, absl::string_view text,
                                             size_t arrays);

// Whatever is read of a checkpoint is opened by this; `name` is NUMBER/FILE. DATA_LOSS: the file is
// no regular one, or its folder none, such as a symbolic link, which may lead anywhere. NOT_FOUND;
// UNAVAILABLE.
absl::StatusOr<RandomAccessReader> OpenCheckpointFile(const FileSystemPtr& file_system,
                                                      const std::string& directory,
                                                      const std::string& name);

// Manifests of one directory as they were parsed before, which takes five times as long as to read
// one and to compare its checksum, or more: a run may keep thousands of checkpoints, and looks at
// all of them for each new one. Thread-safe.
class ManifestCache {
 public:
  // The one with this checksum, if it was put here.
  absl::optional<CheckpointManifest> Find(uint64_t number, absl::string_view checksum) const;
  void Put(const CheckpointManifest& manifest);
  // Forgets all others. REQUIRES: they grow.
  void KeepOnly(const std::vector<uint64_t>& numbers);

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, CheckpointManifest> manifests_ ABSL_GUARDED_BY(mutex_);
};

// DIRECTORY/NUMBER/manifest.json. NOT_FOUND: there is none; DATA_LOSS, FAILED_PRECONDITION as
// above; UNAVAILABLE: it cannot be read now. `cache`, of this directory, spares the parsing of what
// has not changed; nullptr: nothing does.
absl::StatusOr<CheckpointManifest> ReadManifest(const FileSystemPtr& file_system,
                                                const std::string& directory, uint64_t number,
                                                ManifestCache* cache = nullptr);

// The record of manifest.shards(shard). REQUIRES: there is such a shard. Statuses as above, but for
// NOT_FOUND: a manifest without its record is DATA_LOSS.
absl::StatusOr<ShardRecord> ReadShardRecord(const FileSystemPtr& file_system,
                                            const std::string& directory,
                                            const CheckpointManifest& manifest, uint32_t shard);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_RECORDS_H_
