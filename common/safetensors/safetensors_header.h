// The header of a safetensors file (https://github.com/huggingface/safetensors): what tensors it
// has, and where.
//
// A file is the length of its header (8 bytes, little-endian), the header (JSON, padded with spaces
// so that the values start at a multiple of 8), and the values, one tensor after the other without
// gaps.
#ifndef MILLRACE_COMMON_SAFETENSORS_SAFETENSORS_HEADER_H_
#define MILLRACE_COMMON_SAFETENSORS_SAFETENSORS_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace millrace {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "F64", "F16", "BF16", ...
  std::vector<uint64_t> shape;
  // Of its bytes, from the first value of the file. EncodeSafetensorsHeader sets them.
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // In the order of their values.
  std::map<std::string, std::string> metadata;
  uint64_t bytes = 0;  // Length, header and padding: where the values begin.

  // Of all values.
  uint64_t value_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
};

inline constexpr size_t kSafetensorsLengthBytes = 8;
// The format's own limit, without the length.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Bits of an element; nothing for a type that the format does not have.
absl::optional<uint64_t> SafetensorsBits(absl::string_view dtype);

// Of a shape; nothing when they, or 8 bytes for each, are past 64 bits.
absl::optional<uint64_t> ElementsOf(absl::Span<const uint64_t> shape);

// What the first 8 bytes of a file of `file_bytes` say: the length of the JSON that follows.
// INVALID_ARGUMENT: not possible in such a file. `path` is for messages, here and below.
absl::StatusOr<uint64_t> ParseSafetensorsLength(const std::string& path, absl::string_view bytes,
                                                uint64_t file_bytes);

// The JSON that follows the length. Uses memory in proportion to it. INVALID_ARGUMENT, with the
// tensor and what is wrong: malformed, a name twice, bytes that do not fit the shape, tensors that
// overlap or leave gaps, values that do not end where a file of `file_bytes` ends.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& path,
                                                         absl::string_view json,
                                                         uint64_t file_bytes);

// Length and header, as they stand at the beginning of a file; sets `begin`, `end` and `bytes`.
// They are a function of the argument alone. INVALID_ARGUMENT: a name that is empty, not UTF-8,
// "__metadata__" or there twice; a type that the format does not have, or a shape too large.
absl::StatusOr<std::string> EncodeSafetensorsHeader(const std::string& path,
                                                    SafetensorsHeader* header);

}  // namespace millrace

#endif  // MILLRACE_COMMON_SAFETENSORS_SAFETENSORS_HEADER_H_
