// Tensors, and whole safetensors files of them, in memory. common/safetensors has the format, and
// reads and writes piece by piece.
#ifndef MILLRACE_CLIENT_SAFETENSORS_H_
#define MILLRACE_CLIENT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::client {

// A named float32 tensor, row-major.
struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

struct SafetensorsFile {
  std::vector<Tensor> tensors;  // In the order of their values in the file.
  std::map<std::string, std::string> metadata;
};

// Reads a file of F32, F64, F16 and BF16 tensors; blocks. NOT_FOUND: no such file;
// INVALID_ARGUMENT: it is not one, or tensors are of other types, overlap or leave gaps; the
// message names the file and the tensor.
absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_SAFETENSORS_H_
