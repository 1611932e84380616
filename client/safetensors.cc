#include "client/safetensors.h"

#include <utility>

#include "absl/types/span.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"

namespace millrace::client {
absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const SafetensorsReader file,
                            SafetensorsReader::Open(RealFileSystem(), path));
  SafetensorsFile result;
  result.metadata = file.header().metadata;
  for (size_t i = 0; i < file.header().tensors.size(); ++i) {
    const SafetensorsEntry& entry = file.header().tensors[i];
    // Its bytes are in the file, so this is no more than the file has, or twice or four times that.
    Tensor tensor{entry.name, entry.shape, {}};
    if (IsReadableAsFloat(entry.dtype)) tensor.values.resize(*ElementsOf(entry.shape));
    MILLRACE_RETURN_IF_ERROR(file.Read(i, 0, absl::MakeSpan(tensor.values)));
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace millrace::client
