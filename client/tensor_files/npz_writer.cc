#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/tensor_files/npy.h"
#include "client/tensor_files/tensor_sequence.h"
#include "client/tensor_files/zip_writer.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

constexpr size_t kNpyAlignment = 64;
constexpr size_t kNpyPreambleBytes = 10;  // The magic, the version, the header's length.
constexpr size_t kLongestArchiveName = 1000;

class NpzWriter final : public TensorSequence {
 public:
  NpzWriter(ZipWriter archive, std::vector<TensorInfo> tensors)
      : TensorSequence(std::move(tensors)), archive_(std::move(archive)) {}

 private:
  absl::Status Begin(const TensorInfo& tensor) override {
    const std::string header = NpyHeader(tensor.shape);
    MILLRACE_RETURN_IF_ERROR(archive_.Begin(absl::StrCat(tensor.name, ".npy"),
                                            header.size() + CountElements(tensor) * sizeof(float)));
    return archive_.Append(header);
  }
  absl::Status Write(absl::string_view bytes) override { return archive_.Append(bytes); }
  absl::Status End() override { return archive_.End(); }
  absl::Status Finish() override { return archive_.Commit(); }

  ZipWriter archive_;
};

}  // namespace

std::string NpyHeader(const std::vector<uint64_t>& shape) {
  std::string text = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                  absl::StrJoin(shape, ", "), shape.size() == 1 ? "," : "", "), }");
  // The line feed at the end is the header's last byte.
  const size_t unpadded = kNpyPreambleBytes + text.size() + 1;
  text.append((kNpyAlignment - unpadded % kNpyAlignment) % kNpyAlignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

absl::StatusOr<std::unique_ptr<TensorWriter>> CreateNpzWriter(const std::string& path,
                                                              std::vector<TensorInfo> tensors) {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.size() <= kLongestArchiveName) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the tensor name ", tensor.name, " has more than ", kLongestArchiveName, " bytes"));
  }
  MILLRACE_ASSIGN_OR_RETURN(ZipWriter archive, ZipWriter::Create(RealFileSystem(), path));
  return std::make_unique<NpzWriter>(std::move(archive), std::move(tensors));
}

}  // namespace millrace::client
