// Text from elsewhere, made fit for messages: logs, terminals and gRPC's statuses.
#ifndef MILLRACE_COMMON_PRINTABLE_H_
#define MILLRACE_COMMON_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// A message's length at most. gRPC sends a status in its trailers, whose size is limited: a longer
// one would arrive as an error about that.
inline constexpr size_t kMaxPrintableBytes = 2048;
inline constexpr size_t kMaxPrintableNameBytes = 200;

// `text` as UTF-8 without control characters but line feeds: others, and bytes that are no UTF-8,
// are written as \x1b. Of a text that is longer than `max_bytes` then, the beginning and "...".
std::string Printable(absl::string_view text, size_t max_bytes = kMaxPrintableBytes);

// The same, with line feeds escaped too: what others say must not look like lines of a log.
std::string OneLine(absl::string_view text);

// The same for a name within a message.
std::string PrintableName(absl::string_view name);

}  // namespace millrace

#endif  // MILLRACE_COMMON_PRINTABLE_H_
