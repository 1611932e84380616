#include "client/atomic_file.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;
using ::testing::TempDir;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

TEST(AtomicFileTest, AppearsOnCommit) {
  const std::string path = TempDir() + "/committed";
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("one ").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_FALSE(Exists(path));
  ASSERT_TRUE(file->Commit().ok());
  std::ifstream stream(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "one two");
  EXPECT_FALSE(Exists(path + ".tmp"));
}

TEST(AtomicFileTest, LeavesNothingWithoutCommit) {
  const std::string path = TempDir() + "/abandoned";
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    AtomicFile moved = *std::move(file);
    ASSERT_TRUE(moved.Append("half").ok());
  }
  EXPECT_FALSE(Exists(path));
  EXPECT_FALSE(Exists(path + ".tmp"));
}

TEST(AtomicFileTest, FullDeviceIsReportedWithTheFile) {
  // A name whose temporary file is a device that takes no byte.
  const std::string path = TempDir() + "/full";
  ASSERT_EQ(symlink("/dev/full", (path + ".tmp").c_str()), 0);
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = file->Append("x");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr("cannot write " + path));
}

TEST(CheckCanCreateTest, TellsWhatStandsInTheWay) {
  EXPECT_TRUE(CheckCanCreate(TempDir() + "/new_file").ok());
  EXPECT_TRUE(CheckCanCreate("in_this_directory").ok());
  EXPECT_THAT(CheckCanCreate(TempDir()).ToString(), HasSubstr("is a directory"));
  const absl::Status missing = CheckCanCreate(TempDir() + "/missing/file");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.ToString(), HasSubstr("/missing"));
}

}  // namespace
}  // namespace millrace::client
