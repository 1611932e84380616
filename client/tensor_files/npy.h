// Arrays as numpy.save writes them.
#ifndef MILLRACE_CLIENT_TENSOR_FILES_NPY_H_
#define MILLRACE_CLIENT_TENSOR_FILES_NPY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor_files/tensor_writer.h"

namespace millrace::client {

// What stands before the values in an .npy file of little-endian float32 values, format version 1.0
// (numpy.lib.format). A multiple of 64 bytes.
std::string NpyHeader(const std::vector<uint64_t>& shape);

// "dense/kernel" is "dense.kernel.npy" in a folder: a name that no path can be made of.
// INVALID_ARGUMENT: other characters than letters, digits, '_', '-', '.', '/' and '@'.
absl::StatusOr<std::string> NpyFileName(const std::string& tensor);

// See CreateTensorWriter.
absl::StatusOr<std::unique_ptr<TensorWriter>> CreateNpzWriter(const std::string& path,
                                                              std::vector<TensorInfo> tensors);
absl::StatusOr<std::unique_ptr<TensorWriter>> CreateNpyFolderWriter(
    const std::string& path, std::vector<TensorInfo> tensors);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_TENSOR_FILES_NPY_H_
