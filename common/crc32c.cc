// Slicing by 8 (Kounavis and Berry, "Novel table lookup-based algorithms for high-performance CRC
// generation", 2008): table k has the CRC of each byte with k zero bytes behind it.
#include "common/crc32c.h"

#include <array>
#include <cstring>

namespace millrace {
namespace {

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeCrcTables() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  CrcTables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = MakeCrcTables();

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kCrcTables[7 - k][word >> (8 * k) & 0xff];
  }
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTables[0][(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  }
  return ~crc;
}

bool MatchesMaskedCrc32c(absl::string_view bytes, absl::string_view crc) {
  uint32_t value = 0;
  for (size_t i = kCrcBytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(crc[i]);
  return MaskedCrc32c(bytes) == value;
}

}  // namespace millrace
