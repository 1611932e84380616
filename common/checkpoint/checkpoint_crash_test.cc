// Each file operation of what is done with checkpoints fails, or is the last one before the power
// goes. What is there afterwards must be whole: the checkpoints before, and the new one wholly or
// not at all.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/checkpoint_test_util.h"
#include "common/checkpoint/shard_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace {
namespace {

using ::millrace::testing::Compare;
using ::millrace::testing::EmptyDirectory;
using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::millrace::testing::Files;
using ::millrace::testing::FilesIn;
using ::millrace::testing::ImageOf;
using ::millrace::testing::MakeTestJob;
using ::millrace::testing::TestJob;
using ::millrace::testing::TestSource;
using ::millrace::testing::WriteTestCheckpoint;
using ::testing::AnyOf;

namespace fs = std::filesystem;
using FileMap = std::map<std::string, std::string>;

bool IsCrash(Fault fault) { return fault == Fault::kTorn || fault == Fault::kPowerOff; }

// Three states of a job. Each checkpoint refers to most of the one before.
std::vector<TestJob> ThreeStates() {
  std::vector<TestJob> jobs(3, MakeTestJob());
  for (size_t i = 1; i < jobs.size(); ++i) {
    jobs[i] = jobs[i - 1];
    jobs[i].step = i;
    jobs[i].variables[0].arrays[0][i * 4] = -1;
    jobs[i].variables[0].arrays[1][14] = -static_cast<float>(i);
  }
  return jobs;
}

// A directory with checkpoints of the first `count` states.
std::string Prepare(const std::vector<TestJob>& jobs, size_t count) {
  std::string directory = EmptyDirectory("prepared");
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(WriteTestCheckpoint(Files(), directory, jobs[i], i).ok());
  }
  return directory;
}

// Does `act` on a copy of `prepared` once for each operation that it has, with this fault there;
// `check` sees what it left.
void ForEachOperation(
    const std::string& prepared, Fault fault,
    const std::function<absl::Status(const FileSystemPtr&, const std::string&)>& act,
    const std::function<void(const std::string&, const absl::Status&)>& check) {
  bool fired = true;
  for (uint64_t operation = 0; fired; ++operation) {
    SCOPED_TRACE(absl::StrCat("operation ", operation, ", fault ", static_cast<int>(fault)));
    ASSERT_LT(operation, 1000u);
    const std::string directory = EmptyDirectory("disk") + "/run";
    fs::copy(prepared, directory, fs::copy_options::recursive);
    const auto file_system = std::make_shared<FaultFileSystem>();
    file_system->Arm(operation, fault);
    const absl::Status status = act(file_system, directory);
    fired = file_system->fired();
    if (IsCrash(fault)) {
      file_system->PowerOff();
      file_system->DropUnsynced();
    }
    check(directory, status);
    if (::testing::Test::HasFailure()) return;
  }
}

// Each checkpoint that is there is whole, and is the state of its number.
std::vector<uint64_t> CheckAll(const std::string& directory, const std::vector<TestJob>& jobs) {
  std::vector<uint64_t> numbers;
  const auto listed = CheckpointDirectory(Files(), directory).List();
  EXPECT_TRUE(listed.ok()) << listed.status();
  for (const CheckpointDirectory::Listed& one : *listed) {
    EXPECT_TRUE(one.manifest.ok()) << one.manifest.status();
    EXPECT_EQ(Compare(Files(), directory, one.number, jobs[one.manifest->step()]),
              absl::OkStatus());
    const auto verified =
        VerifyCheckpoint(Files(), directory, one.number,
                         [](const CheckpointProblem& problem) { ADD_FAILURE() << problem.what; });
    EXPECT_TRUE(verified.ok()) << verified.status();
    numbers.push_back(one.number);
  }
  return numbers;
}

// After the next collection there are these files, one way or the other.
void ExpectAfterCollection(const std::string& directory, const FileMap& one, const FileMap& other) {
  const auto garbage = CheckpointDirectory(Files(), directory).CollectGarbage(0);
  ASSERT_TRUE(garbage.ok()) << garbage.status();
  // For people only; and what a crash left of its replacement.
  FileMap files = FilesIn(directory);
  for (FileMap* map : {&files}) map->erase("latest");
  EXPECT_THAT(files, AnyOf(one, other));
}

FileMap WithoutLatest(FileMap files) {
  files.erase("latest");
  return files;
}

class EveryFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(EveryFaultTest, WritingLeavesTheOldOnesAndTheNewOneWhollyOrNotAtAll) {
  const std::vector<TestJob> jobs = ThreeStates();
  const std::string prepared = Prepare(jobs, 2);
  const FileMap before = FilesIn(prepared);
  int failures = 0;
  ForEachOperation(
      prepared, GetParam(),
      [&](const FileSystemPtr& file_system, const std::string& directory) {
        return WriteTestCheckpoint(file_system, directory, jobs[2], /*base=*/2).status();
      },
      [&](const std::string& directory, const absl::Status& status) {
        const bool is_there = CheckAll(directory, jobs).size() == 3;
        if (status.ok()) {
          EXPECT_TRUE(is_there);
        } else {
          ++failures;
          EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
          if (!IsCrash(GetParam())) {
            EXPECT_EQ(FilesIn(directory), before) << "something half-written stays";
          }
        }
        ExpectAfterCollection(directory, WithoutLatest(before),
                              is_there ? WithoutLatest(FilesIn(directory)) : FileMap());
        EXPECT_TRUE(WriteTestCheckpoint(Files(), directory, jobs[2], /*base=*/2).ok());
        CheckAll(directory, jobs);
      });
  EXPECT_GT(failures, 20);
}

TEST_P(EveryFaultTest, RemovingLeavesTheOthersWhole) {
  const std::vector<TestJob> jobs = ThreeStates();
  for (const uint64_t number : {1, 2, 3}) {
    const std::string prepared = Prepare(jobs, 3);
    const FileMap before = WithoutLatest(FilesIn(prepared));
    const std::string removed = EmptyDirectory("removed") + "/run";
    fs::copy(prepared, removed, fs::copy_options::recursive);
    ASSERT_EQ(CheckpointDirectory(Files(), removed).Remove(number), absl::OkStatus());
    const FileMap after = WithoutLatest(FilesIn(removed));
    ForEachOperation(
        prepared, GetParam(),
        [&](const FileSystemPtr& file_system, const std::string& directory) {
          return CheckpointDirectory(file_system, directory).Remove(number);
        },
        [&](const std::string& directory, const absl::Status& status) {
          const size_t left = CheckAll(directory, jobs).size();
          EXPECT_EQ(left, status.ok() ? 2u : std::clamp<size_t>(left, 2, 3));
          ExpectAfterCollection(directory, left == 3 ? before : after, after);
        });
  }
}

TEST_P(EveryFaultTest, CollectingGarbageTakesNothingElse) {
  const std::vector<TestJob> jobs = ThreeStates();
  const std::string prepared = Prepare(jobs, 3);
  // The first two are garbage but for what the third refers to.
  fs::remove(JoinPath(prepared, ManifestPath(1)));
  fs::remove(JoinPath(prepared, ManifestPath(2)));
  const std::string collected = EmptyDirectory("collected") + "/run";
  fs::copy(prepared, collected, fs::copy_options::recursive);
  ASSERT_GT(CheckpointDirectory(Files(), collected).CollectGarbage(0)->files, 2u);
  const FileMap after = WithoutLatest(FilesIn(collected));
  ForEachOperation(
      prepared, GetParam(),
      [&](const FileSystemPtr& file_system, const std::string& directory) {
        return CheckpointDirectory(file_system, directory).CollectGarbage(0).status();
      },
      [&](const std::string& directory, const absl::Status& /*status*/) {
        EXPECT_EQ(CheckAll(directory, jobs).size(), 1u);
        ExpectAfterCollection(directory, after, after);
      });
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFaultTest,
                         ::testing::Values(Fault::kError, Fault::kFull, Fault::kTorn,
                                           Fault::kPowerOff));

// Not even for the collection of garbage.
TEST(ShardErrorTest, AShardThatCannotBeWrittenLeavesNothing) {
  const std::vector<TestJob> jobs = ThreeStates();
  const std::string prepared = Prepare(jobs, 1);
  fs::create_directory(JoinPath(prepared, "000002"));
  const FileMap before = FilesIn(prepared);
  for (const Fault fault : {Fault::kError, Fault::kFull}) {
    ForEachOperation(
        prepared, fault,
        [&](const FileSystemPtr& file_system, const std::string& directory) {
          ShardWriteOptions options;
          options.file_system = file_system;
          options.directory = directory;
          options.number = 2;
          options.base = 1;
          TestSource source(&jobs[1], 0);
          return WriteShard(options, ImageOf(jobs[1], 0), &source).status();
        },
        [&](const std::string& directory, const absl::Status& status) {
          EXPECT_EQ(FilesIn(directory) == before, !status.ok());
        });
  }
}

// Does `act` on a copy of `prepared` once for each read that it has, with an error there.
void ForEachRead(const std::string& prepared,
                 const std::function<absl::Status(const FileSystemPtr&, const std::string&)>& act,
                 const std::function<void(const std::string&, const absl::Status&)>& check) {
  bool fired = true;
  for (uint64_t read = 0; fired; ++read) {
    SCOPED_TRACE(absl::StrCat("read ", read));
    ASSERT_LT(read, 1000u);
    const std::string directory = EmptyDirectory("disk") + "/run";
    fs::copy(prepared, directory, fs::copy_options::recursive);
    const auto file_system = std::make_shared<FaultFileSystem>();
    file_system->ArmRead(read);
    const absl::Status status = act(file_system, directory);
    fired = file_system->fired();
    check(directory, fired ? status : absl::OkStatus());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ReadErrorTest, AReadThatFailsIsUnavailableAndNeverDamage) {
  const std::vector<TestJob> jobs = ThreeStates();
  const std::string prepared = Prepare(jobs, 3);
  int failures = 0;
  ForEachRead(
      prepared,
      [&](const FileSystemPtr& file_system, const std::string& directory) {
        return Compare(file_system, directory, 0, jobs[2]);
      },
      [&](const std::string& /*directory*/, const absl::Status& status) {
        if (status.ok()) return;
        ++failures;
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      });
  EXPECT_GT(failures, 20);
}

// Not knowing what a manifest says, or whether there is one, is no reason to remove anything.
TEST(ReadErrorTest, AReadThatFailsRemovesNothingThatIsNeeded) {
  const std::vector<TestJob> jobs = ThreeStates();
  const std::string prepared = Prepare(jobs, 3);
  for (const uint64_t number : {1, 2, 3}) {
    ForEachRead(
        prepared,
        [&](const FileSystemPtr& file_system, const std::string& directory) {
          return CheckpointDirectory(file_system, directory).Remove(number);
        },
        [&](const std::string& directory, const absl::Status& /*status*/) {
          EXPECT_GE(CheckAll(directory, jobs).size(), 2u);
        });
  }
  ForEachRead(
      prepared,
      [&](const FileSystemPtr& file_system, const std::string& directory) {
        return CheckpointDirectory(file_system, directory).CollectGarbage(0).status();
      },
      [&](const std::string& directory, const absl::Status& /*status*/) {
        EXPECT_EQ(CheckAll(directory, jobs).size(), 3u);
      });
  ForEachRead(
      prepared,
      [&](const FileSystemPtr& file_system, const std::string& directory) {
        return WriteTestCheckpoint(file_system, directory, jobs[2], 3).status();
      },
      [&](const std::string& directory, const absl::Status& /*status*/) {
        EXPECT_GE(CheckAll(directory, jobs).size(), 3u);
      });
}

}  // namespace
}  // namespace millrace
