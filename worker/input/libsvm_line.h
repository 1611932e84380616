// One line of LIBSVM's text format.
#ifndef MILLRACE_WORKER_INPUT_LIBSVM_LINE_H_
#define MILLRACE_WORKER_INPUT_LIBSVM_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace millrace::worker {

// What a line says. A blank line, or one with nothing but a comment, has no label.
struct LibsvmLine {
  absl::optional<int32_t> label;  // -1, or 0 to kMaxLibsvmLabel.
  std::vector<uint32_t> indices;  // Counted from 0, increasing.
  std::vector<float> values;      // One for each index; finite.
};

inline constexpr int32_t kMaxLibsvmLabel = 0x7ffffffe;

// What is wrong with a line, and where: the column is counted in bytes from 1.
struct LibsvmError {
  size_t column = 0;
  std::string message;
};

// Parses "LABEL INDEX:VALUE INDEX:VALUE ... # comment", where the indices are counted from 1,
// increase, and are at most `features`. Replaces *parsed, whose memory is used again.
absl::optional<LibsvmError> ParseLibsvmLine(absl::string_view line, uint32_t features,
                                            LibsvmLine* parsed);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_LIBSVM_LINE_H_
