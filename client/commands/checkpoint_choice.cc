#include "client/commands/checkpoint_choice.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/commands/exit_code.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"

namespace millrace::client {

absl::StatusOr<std::string> MakeAbsolute(const std::string& flag, const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return UsageError(absl::StrCat(flag, "=", path, ": ", error.message()));
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<CheckpointName> ParsePath(const std::string& path) {
  auto name = ParseCheckpointName(path);
  if (!name.ok()) return UsageError(absl::StrCat("PATH: ", std::string(name.status().message())));
  return name;
}

absl::StatusOr<CheckpointName> ParseAbsolutePath(const std::string& flag, const std::string& path) {
  auto name = ParseCheckpointName(path);
  if (!name.ok()) {
    return UsageError(absl::StrCat(flag, ": ", std::string(name.status().message())));
  }
  MILLRACE_ASSIGN_OR_RETURN(name->directory, MakeAbsolute(flag, name->directory));
  return name;
}

std::string PathOf(const std::string& directory, uint64_t number) {
  return JoinPath(directory, CheckpointFolder(number));
}

uint64_t BytesOf(const CheckpointManifest& manifest) {
  uint64_t bytes = 0;
  for (const CheckpointShard& shard : manifest.shards()) bytes += shard.bytes();
  return bytes;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(const CheckpointName& name) {
  return Checkpoint::Open(RealFileSystem(), name.directory, name.number);
}

absl::Status CheckOpens(const std::string& directory, const CheckpointDirectory::Listed& listed) {
  MILLRACE_RETURN_IF_ERROR(listed.manifest.status());
  for (const CheckpointShard& shard : listed.manifest->shards()) {
    for (const std::string& file : shard.files()) {
      std::error_code error;
      if (std::filesystem::exists(JoinPath(directory, file), error)) continue;
      return absl::DataLossError(absl::StrCat(JoinPath(directory, file), " is missing"));
    }
  }
  return OpenCheckpoint({directory, listed.number}).status();
}

}  // namespace millrace::client
