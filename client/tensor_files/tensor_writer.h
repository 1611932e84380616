// Tensors, written value by value to files that other programs read.
#ifndef MILLRACE_CLIENT_TENSOR_FILES_TENSOR_WRITER_H_
#define MILLRACE_CLIENT_TENSOR_FILES_TENSOR_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::client {

// A float32 tensor, row-major, without its values.
struct TensorInfo {
  std::string name;
  std::vector<uint64_t> shape;
};

// The product of the dimensions. REQUIRES: it fits 64 bits.
uint64_t CountElements(const TensorInfo& tensor);

// What is written stands beside its path until Commit: there is never half of it under its name.
// Without a Commit nothing is left, unless the process is killed. Uses memory for the tensors'
// names and no more. Not thread-safe. Errors name the file, the operation and the system's reason.
class TensorWriter {
 public:
  virtual ~TensorWriter() = default;

  // The next values: all of the first tensor, then those of the second, and so on, in pieces of any
  // size. REQUIRES: there are no more than the tensors have.
  virtual absl::Status Append(absl::Span<const float> values) = 0;

  // Syncs all that was written and gives it its name. REQUIRES: every value was appended; once.
  virtual absl::Status Commit() = 0;
};

enum class TensorFormat {
  kSafetensors,  // One file.
  kNpz,          // One file, as numpy.load reads it: an uncompressed zip archive.
  kNpyFolder,    // A folder with an .npy file for each tensor.
};

// "FILE.safetensors" and "FILE.npz" are files, "FOLDER/" and a folder that is there are folders.
// INVALID_ARGUMENT: all else: it may be the name of something that is not to be overwritten.
absl::StatusOr<TensorFormat> FormatOf(const std::string& path);

// Whether it can be written there, as far as that is known before: see FormatOf and CheckCanCreate.
// A folder must be empty or not be there. INVALID_ARGUMENT also: it is inside a checkpoint.
absl::Status CheckTensorPath(const std::string& path);

// The bytes are a function of the tensors and their values alone. INVALID_ARGUMENT: a name is empty
// or there twice, or is none for a file of this format; the message says which.
absl::StatusOr<std::unique_ptr<TensorWriter>> CreateTensorWriter(const std::string& path,
                                                                 std::vector<TensorInfo> tensors);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TENSOR_FILES_TENSOR_WRITER_H_
