#include "common/checkpoint/checkpoint_reader.h"

namespace millrace {
class Checkpoint::Impl {
 public:
  CheckpointManifest manifest;
  std::vector<Variable> variables;
};
Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;
absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const FileSystemPtr&,
                                                             const std::string&, uint64_t) {
  return absl::UnimplementedError("not yet");
}
const CheckpointManifest& Checkpoint::manifest() const { return impl_->manifest; }
const std::vector<Checkpoint::Variable>& Checkpoint::variables() const { return impl_->variables; }
absl::optional<size_t> Checkpoint::Find(absl::string_view) const { return absl::nullopt; }
int Checkpoint::arrays() const { return 1 + impl_->manifest.slots_size(); }
absl::Status Checkpoint::Read(size_t, int, uint64_t, absl::Span<float>) {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<std::vector<uint32_t>> Checkpoint::ShardsOf(size_t, uint64_t, uint64_t) const {
  return absl::UnimplementedError("not yet");
}
absl::StatusOr<VerifyResult> VerifyCheckpoint(const FileSystemPtr&, const std::string&, uint64_t,
                                              const std::function<void(const CheckpointProblem&)>&,
                                              const std::function<absl::Status(uint64_t)>&) {
  return absl::UnimplementedError("not yet");
}
}  // namespace millrace
