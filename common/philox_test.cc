#include "common/philox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

// From the kat_vectors file of Random123, the authors' own library.
TEST(PhiloxTest, AgreesWithItsAuthorsTestVectors) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_THAT(Philox(ones, ones, ones),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox(/*key=*/0x299f31d0a4093822, /*counter_low=*/0x85a308d3243f6a88,
                     /*counter_high=*/0x0370734413198a2e),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

}  // namespace
}  // namespace millrace
