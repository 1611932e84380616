#include "common/storage/durable_file.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;

class DurableFileTest : public ::testing::Test {
 protected:
  // How many files are in the directory.
  size_t Files() const {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      files += entry.is_regular_file() ? 1 : 0;
    }
    return files;
  }

  const std::string directory_ = EmptyTestDirectory("files");
  const std::string path_ = directory_ + "/file";
};

TEST_F(DurableFileTest, FileIsThereWithItsCommit) {
  auto file = DurableFile::Create(RealFileSystem(), path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("one ").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_EQ(ReadWholeFile(RealFileSystem(), path_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), path_), "one two");
}

TEST_F(DurableFileTest, FileWithoutCommitLeavesNothing) {
  {
    auto file = DurableFile::Create(RealFileSystem(), path_);
    ASSERT_TRUE(file.ok()) << file.status();
    DurableFile moved = *std::move(file);
    ASSERT_TRUE(moved.Append("text").ok());
  }
  EXPECT_EQ(Files(), 0);
}

// Two exports to one path wrote into one temporary file, and mixed their bytes.
TEST_F(DurableFileTest, TwoFilesToOnePathDoNotMeet) {
  auto first = DurableFile::Create(RealFileSystem(), path_);
  auto second = DurableFile::Create(RealFileSystem(), path_);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(first->Append("first").ok());
  ASSERT_TRUE(second->Append("2nd").ok());
  ASSERT_TRUE(first->Commit().ok());
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), path_), "first");
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), path_), "2nd");
}

// Whatever fails, at whatever operation, and whether the machine stops there or not.
TEST_F(DurableFileTest, OldOrNewTextIsThereWhereverItFails) {
  for (const Fault fault : {Fault::kError, Fault::kFull, Fault::kTorn, Fault::kPowerOff}) {
    bool fired = true;
    for (uint64_t operation = 0; fired; ++operation) {
      SCOPED_TRACE(absl::StrCat("fault ", static_cast<int>(fault), " at operation ", operation));
      std::filesystem::remove(path_);
      ASSERT_TRUE(WriteDurably(RealFileSystem(), path_, "old").ok());
      const auto files = std::make_shared<FaultFileSystem>();
      files->Arm(operation, fault);
      const absl::Status status = WriteDurably(files, path_, "the new text");
      fired = files->fired();
      files->PowerOff();
      files->DropUnsynced();
      const std::string text = *ReadWholeFile(RealFileSystem(), path_);
      EXPECT_THAT(text, ::testing::AnyOf("old", "the new text"));
      if (status.ok()) {
        EXPECT_EQ(text, "the new text") << "it was said to be on the disk";
      }
      ASSERT_LT(operation, 100) << "it never ends";
    }
  }
}

TEST_F(DurableFileTest, FullDiskIsSaidToBeUnavailable) {
  const auto files = std::make_shared<FaultFileSystem>();
  files->Arm(0, Fault::kFull);
  const absl::Status status = WriteDurably(files, path_, "text");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path_));
  files->Heal();
  EXPECT_TRUE(WriteDurably(files, path_, "text").ok());
}

}  // namespace
}  // namespace millrace
