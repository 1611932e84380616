#include "client/safetensors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/printable.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"

namespace millrace::client {
namespace {

// Written between two looks at the interrupt.
constexpr size_t kFloatsAtOnce = 1 << 20;

absl::Status CheckTensor(const std::string& path, const Tensor& tensor) {
  if (ElementsOf(tensor.shape) == tensor.values.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", PrintableName(tensor.name),
                                                 "' of shape [", absl::StrJoin(tensor.shape, ", "),
                                                 "] has ", tensor.values.size(), " values"));
}

// In parts, between which an interrupt is seen.
absl::Status AppendAll(absl::Span<const float> values, const Interrupt* interrupt,
                       SafetensorsWriter* file) {
  while (!values.empty()) {
    if (interrupt != nullptr && interrupt->triggered()) return absl::CancelledError("interrupted");
    const absl::Span<const float> part = values.subspan(0, kFloatsAtOnce);
    MILLRACE_RETURN_IF_ERROR(file->Append(part));
    values.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, absl::Span<const Tensor> tensors,
                              const std::map<std::string, std::string>& metadata,
                              const Interrupt* interrupt) {
  SafetensorsHeader header;
  header.metadata = metadata;
  for (const Tensor& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(CheckTensor(path, tensor));
    SafetensorsEntry entry;
    entry.name = tensor.name;
    entry.dtype = "F32";
    entry.shape = tensor.shape;
    header.tensors.push_back(std::move(entry));
  }
  MILLRACE_ASSIGN_OR_RETURN(SafetensorsWriter file,
                            SafetensorsWriter::Create(RealFileSystem(), path, std::move(header)));
  for (const Tensor& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(AppendAll(tensor.values, interrupt, &file));
  }
  return file.Finish();
}

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
