#include "client/tensor_files/tensor_writer.h"

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/output_path.h"
#include "client/tensor_files/npy.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/safetensors/safetensors_file.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

class SafetensorsAdapter final : public TensorWriter {
 public:
  explicit SafetensorsAdapter(SafetensorsWriter writer) : writer_(std::move(writer)) {}

  absl::Status Append(absl::Span<const float> values) override { return writer_.Append(values); }
  absl::Status Commit() override { return writer_.Finish(); }

 private:
  SafetensorsWriter writer_;
};

absl::StatusOr<std::unique_ptr<TensorWriter>> CreateSafetensorsWriter(
    const std::string& path, const std::vector<TensorInfo>& tensors) {
  SafetensorsHeader header;
  header.metadata = {{"format", "millrace"}};
  for (const TensorInfo& tensor : tensors) {
    header.tensors.push_back({tensor.name, "F32", tensor.shape});
  }
  MILLRACE_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                            SafetensorsWriter::Create(RealFileSystem(), path, std::move(header)));
  return std::make_unique<SafetensorsAdapter>(std::move(writer));
}

absl::Status CheckNames(const std::string& path, const std::vector<TensorInfo>& tensors) {
  std::set<std::string> names;
  for (const TensorInfo& tensor : tensors) {
    if (!tensor.name.empty() && names.insert(tensor.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor name '", tensor.name,
                                                   "': names must be unique and not empty"));
  }
  return absl::OkStatus();
}

absl::Status CheckFolder(const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return CheckCanCreate(folder);
  if (std::filesystem::is_directory(folder, error) && std::filesystem::is_empty(folder, error)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write the folder ", path,
                   ": it is there and not an empty folder; name one that is not there"));
}

// Whether it has files of a checkpoint: others may have folders with numbers for names too.
bool IsCheckpoint(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  if (!ParseCheckpointFolder(name)) return false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (file == kManifestFile || ParseShardFile(JoinPath(name, file))) return true;
  }
  return false;
}

// A file that is written there would be in the way, or in the place, of those of a checkpoint.
absl::Status CheckIsInNoCheckpoint(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  for (auto folder = std::filesystem::weakly_canonical(absolute, error).parent_path();
       folder.has_relative_path(); folder = folder.parent_path()) {
    if (!IsCheckpoint(folder)) continue;
    return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": ", folder.string(),
                                                   " is a checkpoint; name another place"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t CountElements(const TensorInfo& tensor) {
  uint64_t elements = 1;
  for (const uint64_t dimension : tensor.shape) elements *= dimension;
  return elements;
}

absl::StatusOr<TensorFormat> FormatOf(const std::string& path) {
  std::error_code ignored;
  if (absl::EndsWith(path, "/") || std::filesystem::is_directory(path, ignored)) {
    return TensorFormat::kNpyFolder;
  }
  if (absl::EndsWith(path, ".npz")) return TensorFormat::kNpz;
  if (absl::EndsWith(path, ".safetensors")) return TensorFormat::kSafetensors;
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot write ", path, ": must be FILE.safetensors, FILE.npz, or FOLDER/ for .npy files"));
}

absl::Status CheckTensorPath(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const TensorFormat format, FormatOf(path));
  MILLRACE_RETURN_IF_ERROR(CheckIsInNoCheckpoint(path));
  return format == TensorFormat::kNpyFolder ? CheckFolder(path) : CheckCanCreate(path);
}

absl::StatusOr<std::unique_ptr<TensorWriter>> CreateTensorWriter(const std::string& path,
                                                                 std::vector<TensorInfo> tensors) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(path, tensors));
  MILLRACE_ASSIGN_OR_RETURN(const TensorFormat format, FormatOf(path));
  switch (format) {
    case TensorFormat::kSafetensors:
      return CreateSafetensorsWriter(path, tensors);
    case TensorFormat::kNpz:
      return CreateNpzWriter(path, std::move(tensors));
    case TensorFormat::kNpyFolder:
      return CreateNpyFolderWriter(path, std::move(tensors));
  }
  return absl::InternalError("an unknown format");
}

}  // namespace millrace::client
