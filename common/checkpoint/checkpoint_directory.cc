#include "common/checkpoint/checkpoint_directory.h"

#include <utility>

namespace millrace {
CheckpointDirectory::CheckpointDirectory(FileSystemPtr file_system, std::string path)
    : file_system_(std::move(file_system)), path_(std::move(path)) {}
absl::StatusOr<std::vector<CheckpointDirectory::Listed>> CheckpointDirectory::List() const {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<uint64_t> CheckpointDirectory::Newest() const {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<uint64_t> CheckpointDirectory::Begin(uint64_t) {
  return absl::UnimplementedError("not yet");
}
absl::Status CheckpointDirectory::Commit(CheckpointManifest*) {
  return absl::UnimplementedError("not yet");
}
absl::Status CheckpointDirectory::Remove(uint64_t) { return absl::UnimplementedError("not yet"); }
absl::StatusOr<CheckpointDirectory::Garbage> CheckpointDirectory::CollectGarbage(uint64_t) {
  return absl::UnimplementedError("not yet");
}
std::vector<uint64_t> CheckpointsToRemove(const std::vector<WrittenCheckpoint>&, uint32_t,
                                          absl::Duration) {
  return {};
}
}  // namespace millrace
