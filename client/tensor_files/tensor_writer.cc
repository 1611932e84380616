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

}  // namespace

uint64_t CountElements(const TensorInfo& tensor) {
  uint64_t elements = 1;
  for (const uint64_t dimension : tensor.shape) elements *= dimension;
  return elements;
}

TensorFormat FormatOf(const std::string& path) {
  std::error_code ignored;
  if (absl::EndsWith(path, "/") || std::filesystem::is_directory(path, ignored)) {
    return TensorFormat::kNpyFolder;
  }
  return absl::EndsWith(path, ".npz") ? TensorFormat::kNpz : TensorFormat::kSafetensors;
}

absl::Status CheckTensorPath(const std::string& path) {
  return FormatOf(path) == TensorFormat::kNpyFolder ? CheckFolder(path) : CheckCanCreate(path);
}

absl::StatusOr<std::unique_ptr<TensorWriter>> CreateTensorWriter(const std::string& path,
                                                                 std::vector<TensorInfo> tensors) {
  MILLRACE_RETURN_IF_ERROR(CheckNames(path, tensors));
  switch (FormatOf(path)) {
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
