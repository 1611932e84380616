// Whole safetensors files in memory. common/safetensors has the format, and reads and writes piece
// by piece.
#ifndef MILLRACE_CLIENT_SAFETENSORS_H_
#define MILLRACE_CLIENT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/interrupt.h"

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

// Writes a new file beside `path`, flushes it to the disk and renames it, so that there is never
// half a file at `path`; blocks while it does. The bytes are a function of the arguments alone.
// CANCELLED: `interrupt` (not owned; may be null) came, and nothing is left. INVALID_ARGUMENT: a
// tensor without a name, with the name of another, or whose values do not fit its shape. Others
// name the file, the operation and the system's reason.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const Tensor> tensors,
                              const std::map<std::string, std::string>& metadata,
                              const Interrupt* interrupt = nullptr);

// Reads a file of F32, F64, F16 and BF16 tensors; blocks. NOT_FOUND: no such file;
// INVALID_ARGUMENT: it is not one, or tensors are of other types, overlap or leave gaps; the
// message names the file and the tensor.
absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_SAFETENSORS_H_
