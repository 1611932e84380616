#include "common/memory_limit.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"

namespace millrace {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

class MemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, absl::string_view text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }

  std::string root_ = EmptyTestDirectory("root");
};

TEST_F(MemoryLimitTest, IsAtMostTheMachinesMemoryAndNeverZero) {
  EXPECT_GT(MemoryLimit(), 0u);
  EXPECT_LE(MemoryLimit(), static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

TEST_F(MemoryLimitTest, AGroupsLimitHoldsForTheGroupsBelowIt) {
  Write("/memory.max", "max\n");
  Write("/system.slice/memory.max", "1000\n");
  Write("/system.slice/ps.service/memory.max", "max\n");
  EXPECT_EQ(CgroupMemoryLimit("0::/system.slice/ps.service\n", root_), 1000u);
  Write("/system.slice/ps.service/memory.max", "900\n");
  EXPECT_EQ(CgroupMemoryLimit("0::/system.slice/ps.service\n", root_), 900u);
}

TEST_F(MemoryLimitTest, AContainerThatSeesItsGroupAsTheRootHasThatLimit) {
  Write("/memory.max", "2000\n");
  EXPECT_EQ(CgroupMemoryLimit("0::/\n", root_), 2000u);
  EXPECT_EQ(CgroupMemoryLimit("0::/docker/0123\n", root_), 2000u);
}

TEST_F(MemoryLimitTest, ReadsVersionOneToo) {
  Write("/memory/docker/0123/memory.limit_in_bytes", "3000\n");
  Write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(CgroupMemoryLimit("3:cpu,cpuacct:/docker/0123\n2:memory:/docker/0123\n0::/\n", root_),
            3000u);
}

TEST_F(MemoryLimitTest, WhatCannotBeReadIsNoLimit) {
  EXPECT_EQ(CgroupMemoryLimit("", root_), kNoLimit);
  EXPECT_EQ(CgroupMemoryLimit("nonsense\n0::/absent\n", root_), kNoLimit);
  Write("/memory.max", "max\n");
  EXPECT_EQ(CgroupMemoryLimit("0::/\n", root_), kNoLimit);
}

}  // namespace
}  // namespace millrace
