#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "client/tensor_files/npy.h"
#include "client/tensor_files/tensor_sequence.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"
#include "common/system_error.h"

namespace millrace::client {
namespace {

// Files are written into a folder beside the path; renaming it is what makes them be there.
class NpyFolderWriter final : public TensorSequence {
 public:
  NpyFolderWriter(std::string path, std::string temporary, std::vector<TensorInfo> tensors)
      : TensorSequence(std::move(tensors)),
        path_(std::move(path)),
        temporary_(std::move(temporary)) {}

  ~NpyFolderWriter() override {
    file_.reset();
    std::error_code ignored;
    if (!committed_) std::filesystem::remove_all(temporary_, ignored);
  }

 private:
  absl::Status Begin(const TensorInfo& tensor) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::string name, NpyFileName(tensor.name));
    MILLRACE_ASSIGN_OR_RETURN(
        DurableFile file,
        DurableFile::Create(RealFileSystem(), absl::StrCat(temporary_, "/", name)));
    file_.emplace(std::move(file));
    return file_->Append(NpyHeader(tensor.shape));
  }
  absl::Status Write(absl::string_view bytes) override { return file_->Append(bytes); }
  absl::Status End() override {
    const absl::Status status = file_->Commit();
    file_.reset();
    return status;
  }
  absl::Status Finish() override {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return SystemError(absl::StrCat("rename ", temporary_, " to"), path_, errno);
    }
    committed_ = true;
    return SyncDirectory(RealFileSystem(), DirectoryOf(path_));
  }

  const std::string path_;
  const std::string temporary_;
  absl::optional<DurableFile> file_;
  bool committed_ = false;
};

absl::Status CheckFileNames(const std::string& path, const std::vector<TensorInfo>& tensors) {
  std::map<std::string, std::string> by_file;
  for (const TensorInfo& tensor : tensors) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string file, NpyFileName(tensor.name));
    const auto [other, is_new] = by_file.emplace(file, tensor.name);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": the tensors ", other->second, " and ", tensor.name, " would both be the file ",
          file, "; write them to one .npz or .safetensors file"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> NpyFileName(const std::string& tensor) {
  constexpr absl::string_view kOthers = "_-./@";
  std::string name;
  for (const char c : tensor) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        kOthers.find(c) == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tensor name '", tensor,
                       "' cannot be a file's: it has other characters than letters, "
                       "digits and _-./@; write to one .npz or .safetensors file"));
    }
    name += c == '/' ? '.' : c;
  }
  return name + ".npy";
}

absl::StatusOr<std::unique_ptr<TensorWriter>> CreateNpyFolderWriter(
    const std::string& path, std::vector<TensorInfo> tensors) {
  MILLRACE_RETURN_IF_ERROR(CheckFileNames(path, tensors));
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  absl::BitGen random;
  std::string temporary = absl::StrFormat("%s.tmp-%016x", folder, absl::Uniform<uint64_t>(random));
  std::error_code error;
  if (!std::filesystem::create_directory(temporary, error)) {
    return SystemError("make the folder", temporary, error.value());
  }
  return std::make_unique<NpyFolderWriter>(std::move(folder), std::move(temporary),
                                           std::move(tensors));
}

}  // namespace millrace::client
