// Whether two workers read the same data.
#ifndef MILLRACE_WORKER_INPUT_FINGERPRINT_H_
#define MILLRACE_WORKER_INPUT_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"

namespace millrace::worker {

// XXH64 (Y. Collet's xxHash, 64 bits): several bytes a cycle, and the same in every release. No
// protection against data that were made to collide.
uint64_t Fingerprint(uint64_t seed, absl::Span<const unsigned char> bytes);

// The same of the numbers as they stand in memory. Pass on the result as the next `seed` to go on
// with more.
template <typename Number>
uint64_t FingerprintOf(uint64_t seed, const std::vector<Number>& numbers) {
  static_assert(std::is_arithmetic_v<Number>);
  return Fingerprint(seed,
                     absl::MakeConstSpan(reinterpret_cast<const unsigned char*>(numbers.data()),
                                         numbers.size() * sizeof(Number)));
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_FINGERPRINT_H_
