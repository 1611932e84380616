#include "common/storage/direct_io.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(DirectIoTest, IsForDisksOfThisMachine) {
  EXPECT_FALSE(PrefersDirectIo("/proc")) << "there is no disk";
  EXPECT_FALSE(PrefersDirectIo(::testing::TempDir() + "/nowhere"));
}

TEST(DirectIoTest, LooksWithoutATrace) {
  const std::string directory = ::testing::TempDir() + "/direct_io_test";
  std::filesystem::create_directories(directory);
  PrefersDirectIo(directory);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

}  // namespace
}  // namespace millrace
