#include "common/checkpoint/checksum.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "xxhash.h"

namespace millrace {

std::string Checksum(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

bool IsChecksum(absl::string_view text) {
  return text.size() == kChecksumDigits && std::all_of(text.begin(), text.end(), [](char digit) {
           return ('0' <= digit && digit <= '9') || ('a' <= digit && digit <= 'f');
         });
}

}  // namespace millrace
