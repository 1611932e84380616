// Several who write and remove in one directory at the same time, and what nobody can remove.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_test_util.h"
#include "common/checkpoint/shard_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"

namespace millrace {
namespace {

using ::millrace::testing::Compare;
using ::millrace::testing::EmptyDirectory;
using ::millrace::testing::Files;
using ::millrace::testing::FilesIn;
using ::millrace::testing::ImageOf;
using ::millrace::testing::MakeTestJob;
using ::millrace::testing::TestJob;
using ::millrace::testing::TestSource;
using ::millrace::testing::WriteShards;
using ::millrace::testing::WriteTestCheckpoint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

ShardWriteOptions OptionsOf(const std::string& directory, uint64_t number) {
  ShardWriteOptions options;
  options.file_system = Files();
  options.directory = directory;
  options.number = number;
  return options;
}

// A writer whose coordinator has gone removed and overwrote what its successor had written.
TEST(TwoWritersTest, AWriterLeavesAloneWhatAnotherOneWritesUnderItsNames) {
  const std::string directory = EmptyDirectory("two_writers");
  const TestJob job = MakeTestJob();
  CheckpointDirectory checkpoints(Files(), directory);
  const uint64_t number = *checkpoints.Begin();
  const auto again = [&] {
    fs::remove_all(CheckpointPath(directory, number));
    fs::create_directory(CheckpointPath(directory, number));
    TestSource source(&job, 0);
    ASSERT_TRUE(WriteShard(OptionsOf(directory, number), ImageOf(job, 0), &source).ok());
  };
  for (const bool ends_early : {false, true}) {
    std::map<std::string, std::string> written;
    ShardWriteOptions options = OptionsOf(directory, number);
    options.before_write = [&](uint64_t bytes) {
      if (bytes == 0 || !written.empty()) return absl::OkStatus();
      again();
      written = FilesIn(directory);
      return ends_early ? absl::CancelledError("enough") : absl::OkStatus();
    };
    fs::remove_all(CheckpointPath(directory, number));
    fs::create_directory(CheckpointPath(directory, number));
    TestSource source(&job, 0);
    const absl::Status status = WriteShard(options, ImageOf(job, 0), &source).status();
    EXPECT_EQ(status.code(),
              ends_early ? absl::StatusCode::kCancelled : absl::StatusCode::kAlreadyExists);
    EXPECT_FALSE(written.empty());
    EXPECT_EQ(FilesIn(directory), written);
  }
}

// Calls something right before or after a folder is marked as one that is removed.
class HookedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using Hook = std::function<void()>;
  HookedFileSystem(Hook before, Hook after)
      : FileSystemWrapper(RealFileSystem()), before_(std::move(before)), after_(std::move(after)) {}
  const char* Name() const override { return "HookedFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    const bool is_mark = absl::EndsWith(path, kRemovalMark);
    if (is_mark) before_();
    auto status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
    if (is_mark) after_();
    return status;
  }

 private:
  const Hook before_;
  const Hook after_;
};

// Calls something right before a directory is listed.
class ListingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  ListingFileSystem(std::string directory, std::function<void()> before)
      : FileSystemWrapper(RealFileSystem()),
        directory_(std::move(directory)),
        before_(std::move(before)) {}
  const char* Name() const override { return "ListingFileSystem"; }

  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override {
    if (path == directory_) before_();
    return FileSystemWrapper::GetChildren(path, options, names, debug);
  }

 private:
  const std::string directory_;
  const std::function<void()> before_;
};

// The collection removed files of what had become a checkpoint since it looked.
TEST(GarbageTest, WhatIsCommittedWhileItIsCollectedIsWholeOrNone) {
  const TestJob job = MakeTestJob();
  for (const bool is_marked : {false, true}) {
    SCOPED_TRACE(is_marked);
    const std::string directory = EmptyDirectory("collected_meanwhile");
    CheckpointDirectory checkpoints(Files(), directory);
    const uint64_t number = *checkpoints.Begin();
    auto manifest = WriteShards(Files(), directory, number, job, 0);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    absl::Status committed;
    const auto commit = [&] { committed = checkpoints.Commit(&*manifest); };
    const auto nothing = [] {};
    const auto file_system = is_marked ? std::make_shared<HookedFileSystem>(nothing, commit)
                                       : std::make_shared<HookedFileSystem>(commit, nothing);
    ASSERT_TRUE(CheckpointDirectory(file_system, directory).CollectGarbage(0).ok());
    if (is_marked) {
      EXPECT_EQ(committed.code(), absl::StatusCode::kFailedPrecondition) << committed;
      EXPECT_THAT(FilesIn(directory), IsEmpty());
    } else {
      EXPECT_EQ(committed, absl::OkStatus());
      EXPECT_EQ(Compare(Files(), directory, number, job), absl::OkStatus());
      EXPECT_FALSE(fs::exists(directory + "/000001/being-removed"));
    }
  }
}

// The same before it looked into the folder: then all files went, and the manifest stayed.
TEST(GarbageTest, WhatIsCommittedAfterTheManifestsWereReadIsLeftAlone) {
  const TestJob job = MakeTestJob();
  const std::string directory = EmptyDirectory("committed_meanwhile");
  CheckpointDirectory checkpoints(Files(), directory);
  const uint64_t number = *checkpoints.Begin();
  auto manifest = WriteShards(Files(), directory, number, job, 0);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  absl::Status committed = absl::UnknownError("never");
  const auto file_system = std::make_shared<ListingFileSystem>(
      CheckpointPath(directory, number), [&] { committed = checkpoints.Commit(&*manifest); });
  const auto garbage = CheckpointDirectory(file_system, directory).CollectGarbage(0);
  ASSERT_TRUE(garbage.ok()) << garbage.status();
  EXPECT_EQ(garbage->files, 0u);
  EXPECT_EQ(committed, absl::OkStatus());
  EXPECT_EQ(Compare(Files(), directory, number, job), absl::OkStatus());
}

// It ended the collection; and what the link leads to was taken for garbage.
TEST(GarbageTest, AFolderThatCannotBeCleanedHoldsUpNoOther) {
  const std::string directory = EmptyDirectory("uncleanable");
  const std::string elsewhere = EmptyDirectory("uncleanable_elsewhere");
  std::ofstream(elsewhere + "/shard-00000.json") << "{}";
  fs::create_directory_symlink(elsewhere, directory + "/000001");
  fs::create_directory(directory + "/000002");
  std::ofstream(directory + "/000002/shard-00000.json") << "{}";
  const auto garbage = CheckpointDirectory(Files(), directory).CollectGarbage(0);
  ASSERT_TRUE(garbage.ok()) << garbage.status();
  EXPECT_EQ(garbage->files, 1u);
  EXPECT_THAT(std::string(garbage->kept_for.message()), HasSubstr("000001 is no directory"));
  EXPECT_TRUE(fs::exists(elsewhere + "/shard-00000.json"));
}

// On a full disk nothing was freed.
TEST(GarbageTest, FilesGoAlsoWhereLatestCannotBeWritten) {
  const std::string directory = EmptyDirectory("latest_fails");
  const TestJob job = MakeTestJob();
  ASSERT_TRUE(WriteTestCheckpoint(Files(), directory, job).ok());
  ASSERT_TRUE(WriteTestCheckpoint(Files(), directory, job).ok());
  fs::remove(directory + "/latest");
  fs::create_directories(directory + "/latest/taken");
  EXPECT_FALSE(CheckpointDirectory(Files(), directory).Remove(2).ok());
  for (const auto& [name, text] : FilesIn(directory)) {
    EXPECT_TRUE(absl::StartsWith(name, "000001/")) << name;
  }
}

}  // namespace
}  // namespace millrace
