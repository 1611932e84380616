#include "client/temporary_directory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TemporaryDirectoryTest, IsRemovedWithAllThatIsInIt) {
  setenv("TMPDIR", ::testing::TempDir().c_str(), /*overwrite=*/1);
  auto directory = TemporaryDirectory::Create();
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string path = (*directory)->path();
  EXPECT_THAT(path, StartsWith(::testing::TempDir()));
  std::filesystem::create_directories(path + "/ps-0/database");
  std::ofstream(path + "/ps-0/database/CURRENT") << "x";
  std::exchange(*directory, nullptr).reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryDirectoryTest, SaysWhereItCannotBeMade) {
  setenv("TMPDIR", "/nonexistent", /*overwrite=*/1);
  const auto directory = TemporaryDirectory::Create();
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(directory.status().ToString(), HasSubstr("/nonexistent/millrace-"));
}

}  // namespace
}  // namespace millrace::client
