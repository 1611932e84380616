#include "client/atomic_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::TempDir;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string Content(const std::string& path) {
  std::ifstream stream(path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// An empty directory.
std::string NewDirectory(const std::string& name) {
  std::string path = TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(AtomicFileTest, AppearsOnCommit) {
  const std::string directory = NewDirectory("committed");
  const std::string path = directory + "/file";
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("one ").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_FALSE(Exists(path));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Content(path), "one two");
  EXPECT_THAT(Names(directory), ElementsAre("file"));
}

TEST(AtomicFileTest, LeavesNothingWithoutCommit) {
  const std::string directory = NewDirectory("abandoned");
  {
    auto file = AtomicFile::Create(directory + "/file");
    ASSERT_TRUE(file.ok());
    AtomicFile moved = *std::move(file);
    ASSERT_TRUE(moved.Append("half").ok());
  }
  EXPECT_THAT(Names(directory), IsEmpty());
}

// Two exports to one path wrote into one temporary file, and mixed their bytes.
TEST(AtomicFileTest, TwoFilesToOnePathDoNotMeet) {
  const std::string path = NewDirectory("two") + "/file";
  auto first = AtomicFile::Create(path);
  auto second = AtomicFile::Create(path);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(first->Append("first").ok());
  ASSERT_TRUE(second->Append("2nd").ok());
  ASSERT_TRUE(first->Commit().ok());
  EXPECT_EQ(Content(path), "first");
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_EQ(Content(path), "2nd");
}

TEST(AtomicFileTest, AFileThatMayNotGrowIsReportedWithItsName) {
  const std::string directory = NewDirectory("full");
  const std::string path = directory + "/file";
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    const rlimit tiny = {4, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
    const absl::Status status = file->Append("more than four bytes");
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.ToString(), HasSubstr("cannot write " + path));
  }
  EXPECT_THAT(Names(directory), IsEmpty());
}

TEST(CheckCanCreateTest, TellsWhatStandsInTheWay) {
  EXPECT_TRUE(CheckCanCreate(TempDir() + "/new_file").ok());
  EXPECT_TRUE(CheckCanCreate("in_this_directory").ok());
  EXPECT_THAT(CheckCanCreate(TempDir()).ToString(), HasSubstr("is a directory"));
  // Root could replace a device by an export.
  EXPECT_THAT(CheckCanCreate("/dev/null").ToString(), HasSubstr("no ordinary file"));
  const absl::Status missing = CheckCanCreate(TempDir() + "/missing/file");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.ToString(), HasSubstr("/missing"));
}

}  // namespace
}  // namespace millrace::client
