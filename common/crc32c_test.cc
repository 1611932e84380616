#include "common/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace millrace {
namespace {

// RFC 3720, B.4.
TEST(Crc32cTest, ValuesOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up;
  for (int i = 0; i < 32; ++i) up.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
}

}  // namespace
}  // namespace millrace
