#include "common/checkpoint/checkpoint_records.h"

namespace millrace {
absl::StatusOr<std::string> EncodeManifest(CheckpointManifest*) {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<std::string> EncodeShardRecord(const ShardRecord&) {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string&, absl::string_view) {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<ShardRecord> ParseShardRecord(const std::string&, absl::string_view, size_t) {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<CheckpointManifest> ReadManifest(const FileSystemPtr&, const std::string&,
                                                uint64_t) {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<ShardRecord> ReadShardRecord(const FileSystemPtr&, const std::string&,
                                            const CheckpointManifest&, uint32_t) {
  return absl::UnimplementedError("not yet");
}
}  // namespace millrace
