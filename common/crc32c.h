// CRC-32C (Castagnoli), as TFRecord files and the logs of RocksDB have it.
#ifndef MILLRACE_COMMON_CRC32C_H_
#define MILLRACE_COMMON_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace {

// Without the instructions of any processor: about as fast as a disk.
uint32_t Crc32c(absl::string_view bytes);

// Their way to keep a CRC next to what it is of.
inline uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

// Whether `crc`, of kCrcBytes bytes, is that of `bytes`: masked, little-endian.
inline constexpr size_t kCrcBytes = 4;
bool MatchesMaskedCrc32c(absl::string_view bytes, absl::string_view crc);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CRC32C_H_
