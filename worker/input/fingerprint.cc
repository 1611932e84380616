#include "worker/input/fingerprint.h"

#include <array>
#include <cstring>

#include "absl/numeric/bits.h"

namespace millrace::worker {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5;

template <typename Word>
Word Load(const unsigned char* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

uint64_t Round(uint64_t lane, uint64_t word) {
  return absl::rotl(lane + word * kPrime2, 31) * kPrime1;
}

// Takes all whole groups of four words off `bytes`.
uint64_t HashGroups(uint64_t seed, absl::Span<const unsigned char>* bytes) {
  constexpr size_t kGroupBytes = 32;
  std::array<uint64_t, 4> lanes = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
  for (; bytes->size() >= kGroupBytes; bytes->remove_prefix(kGroupBytes)) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = Round(lanes[i], Load<uint64_t>(bytes->data() + i * sizeof(uint64_t)));
    }
  }
  uint64_t hash = absl::rotl(lanes[0], 1) + absl::rotl(lanes[1], 7) + absl::rotl(lanes[2], 12) +
                  absl::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes) hash = (hash ^ Round(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

uint64_t HashRest(uint64_t hash, absl::Span<const unsigned char> bytes) {
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    hash ^= Round(0, Load<uint64_t>(bytes.data()));
    hash = absl::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  if (bytes.size() >= 4) {
    hash ^= Load<uint32_t>(bytes.data()) * kPrime1;
    hash = absl::rotl(hash, 23) * kPrime2 + kPrime3;
    bytes.remove_prefix(4);
  }
  for (const unsigned char byte : bytes) hash = absl::rotl(hash ^ byte * kPrime5, 11) * kPrime1;
  return hash;
}

}  // namespace

uint64_t Fingerprint(uint64_t seed, absl::Span<const unsigned char> bytes) {
  const uint64_t size = bytes.size();
  uint64_t hash = size < 32 ? seed + kPrime5 : HashGroups(seed, &bytes);
  hash = HashRest(hash + size, bytes);
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace millrace::worker
