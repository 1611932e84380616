#include "common/storage/directory_lock.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(DirectoryLockTest, OneHolderAtATime) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/directory_lock_test");
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  {
    const auto lock = DirectoryLock::Take(path);
    ASSERT_TRUE(lock.ok()) << lock.status();
    const absl::Status second = DirectoryLock::Take(path).status();
    EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(second.message()), HasSubstr(path));
  }
  EXPECT_TRUE(DirectoryLock::Take(path).ok());
}

TEST(DirectoryLockTest, MissingDirectoryIsAnError) {
  const absl::Status status = DirectoryLock::Take("/no/such/directory").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace
