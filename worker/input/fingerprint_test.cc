#include "worker/input/fingerprint.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

uint64_t OfText(absl::string_view text) {
  return Fingerprint(
      0, absl::MakeConstSpan(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

// The values that xxHash publishes for XXH64 with seed 0.
TEST(FingerprintTest, IsXxh64) {
  EXPECT_EQ(OfText(""), 0xef46db3751d8e999);
  EXPECT_EQ(OfText("a"), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(OfText("abc"), 0x44bc2cf5ad770999);
  EXPECT_EQ(OfText("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1);
}

TEST(FingerprintTest, EveryByteCounts) {
  for (size_t size = 1; size < 100; ++size) {
    std::vector<uint8_t> bytes(size);
    const uint64_t before = FingerprintOf(0, bytes);
    for (size_t i = 0; i < size; ++i) {
      bytes[i] = 1;
      EXPECT_NE(FingerprintOf(0, bytes), before) << "byte " << i << " of " << size;
      bytes[i] = 0;
    }
  }
}

TEST(FingerprintTest, SeedCounts) {
  const std::vector<float> numbers = {1, 2, 3};
  EXPECT_NE(FingerprintOf(1, numbers), FingerprintOf(2, numbers));
}

}  // namespace
}  // namespace millrace::worker
