#include "client/spool_file.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(SpoolFileTest, HoldsFloatsAndLeavesNoFile) {
  const std::string directory = ::testing::TempDir() + "/spool";
  std::filesystem::create_directory(directory);
  auto spool = SpoolFile::Create(directory, 100'000);
  ASSERT_TRUE(spool.ok()) << spool.status();
  ASSERT_EQ(spool->values().size(), 100'000u);
  EXPECT_THAT(spool->values(), Each(0));
  spool->values()[99'999] = 7;
  const SpoolFile moved = *std::move(spool);
  EXPECT_EQ(moved.values()[99'999], 7);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST(SpoolFileTest, MoreThanThereIsRoomForIsRefused) {
  EXPECT_FALSE(SpoolFile::Create(::testing::TempDir(), uint64_t{1} << 58).ok());
  EXPECT_THAT(SpoolFile::Create("/nonexistent", 1).status().ToString(), HasSubstr("/nonexistent"));
  EXPECT_TRUE(SpoolFile::Create("/nonexistent", 0).ok());
}

}  // namespace
}  // namespace millrace::client
