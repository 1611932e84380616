// Names of the files of checkpoints, below their directory. Names from a file are parsed strictly,
// so that none leads out of it.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_PATHS_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_PATHS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace millrace {

// Names the newest checkpoint, for people.
inline constexpr char kLatestFile[] = "latest";
// Names the job whose directory it is.
inline constexpr char kOwnerFile[] = "owner";
// There while a job holds the directory, and locked: says who.
inline constexpr char kHolderFile[] = "held-by";
inline constexpr char kManifestFile[] = "manifest.json";
// In a folder that has no manifest: somebody removes it, and it becomes no checkpoint any more.
inline constexpr char kRemovalMark[] = "being-removed";

// "000017". Numbers begin at 1.
std::string CheckpointFolder(uint64_t number);
// The number of such a name; nothing for any other text: "17", "latest", "000000".
absl::optional<uint64_t> ParseCheckpointFolder(absl::string_view name);

// "DIRECTORY/000017".
std::string CheckpointPath(absl::string_view directory, uint64_t number);

// "000017/manifest.json".
std::string ManifestPath(uint64_t number);
// "000017/shard-00003.safetensors".
std::string ShardValuesPath(uint64_t number, uint32_t shard);
// "000017/shard-00003.json".
std::string ShardRecordPath(uint64_t number, uint32_t shard);

struct ShardFileName {
  uint64_t checkpoint = 0;
  uint32_t shard = 0;
  bool is_record = false;  // Or values.
};
// Of the two kinds of paths above; nothing for any other text.
absl::optional<ShardFileName> ParseShardFile(absl::string_view path);

// The same path for all ways to write one that need no look at the disk: without "//", "/./",
// "/../" and a slash at its end. "" for "".
std::string NormalDirectory(absl::string_view path);

// DIRECTORY/NAME.
std::string JoinPath(absl::string_view directory, absl::string_view name);

struct CheckpointName {
  std::string directory;
  uint64_t number = 0;  // 0: the newest.
};
// What a user says: "DIR", "DIR/latest" or "DIR/000017"; looks at no file. INVALID_ARGUMENT: empty.
absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_PATHS_H_
