// Random numbers by position: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011). The same bits for the same key and counter, in every process and for ever.
#ifndef MILLRACE_COMMON_PHILOX_H_
#define MILLRACE_COMMON_PHILOX_H_

#include <array>
#include <cstdint>

namespace millrace {

// 128 random bits for each of the 2^128 counters; different keys give unrelated sequences.
constexpr std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low,
                                         uint64_t counter_high) {
  std::array<uint32_t, 4> x = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t key_0 = static_cast<uint32_t>(key);
  uint32_t key_1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product_0 = uint64_t{0xD2511F53} * x[0];
    const uint64_t product_1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(product_1 >> 32) ^ x[1] ^ key_0, static_cast<uint32_t>(product_1),
         static_cast<uint32_t>(product_0 >> 32) ^ x[3] ^ key_1, static_cast<uint32_t>(product_0)};
    key_0 += 0x9E3779B9;
    key_1 += 0xBB67AE85;
  }
  return x;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_PHILOX_H_
