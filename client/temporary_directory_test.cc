#include "client/temporary_directory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "common/storage/directory_lock.h"
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

TEST(TemporaryDirectoryTest, WhatKilledProcessesHaveLeftIsRemovedByTheNext) {
  setenv("TMPDIR", ::testing::TempDir().c_str(), /*overwrite=*/1);
  const auto in_use = TemporaryDirectory::Create();
  ASSERT_TRUE(in_use.ok()) << in_use.status();
  const std::string left = ::testing::TempDir() + "/millrace-abcdef";
  std::filesystem::create_directories(left + "/ps-0");
  std::ofstream(left + "/" + kLockFile) << "";  // Nobody has it locked.
  const std::string foreign = ::testing::TempDir() + "/millrace-ghijkl";
  std::filesystem::create_directories(foreign);  // Without such a file it is none of ours.
  const auto next = TemporaryDirectory::Create();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE(std::filesystem::exists((*in_use)->path()));
  EXPECT_TRUE(std::filesystem::exists((*next)->path()));
}

TEST(TemporaryDirectoryTest, SaysWhereItCannotBeMade) {
  setenv("TMPDIR", "/nonexistent", /*overwrite=*/1);
  const auto directory = TemporaryDirectory::Create();
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(directory.status().ToString(), HasSubstr("/nonexistent/millrace-"));
}

}  // namespace
}  // namespace millrace::client
