// What tells whether bytes of a checkpoint are those that were written.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKSUM_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKSUM_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

inline constexpr size_t kChecksumDigits = 32;

// XXH3, 128 bits, as lower-case hexadecimal digits: xxhash.xxh3_128_hexdigest of Python. It finds
// accidents, and stops nobody who changes files on purpose.
std::string Checksum(absl::string_view bytes);

// As many lower-case hexadecimal digits.
bool IsChecksum(absl::string_view text);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKSUM_H_
