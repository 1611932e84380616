#include "common/storage/rocks_database.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class RocksDatabaseTest : public ::testing::Test {
 protected:
  // An empty directory, and a disk that works.
  void Begin() {
    database_.reset();
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    Open();
  }

  void Open() {
    files_ = std::make_shared<FaultFileSystem>();
    auto database = RocksDatabase::Open(path_, {.file_system = files_, .clock = &clock_});
    ASSERT_TRUE(database.ok()) << database.status();
    database_ = *std::move(database);
  }

  // What a power cut leaves.
  void CutPower() {
    files_->PowerOff();
    database_.reset();
    files_->DropUnsynced();
    Open();
  }

  absl::Status Put(const std::string& value) {
    return database_->Write({.put = {{"key", value}}, .remove = {}});
  }
  std::string Get() { return (*database_->Get("key")).value_or("nothing"); }

  const std::string path_ = TestDirectory("database");
  SimulatedClock clock_;
  std::shared_ptr<FaultFileSystem> files_;
  std::unique_ptr<RocksDatabase> database_;
};

TEST_F(RocksDatabaseTest, WrittenRecordSurvivesAPowerCut) {
  Begin();
  ASSERT_TRUE(Put("value").ok());
  CutPower();
  EXPECT_EQ(Get(), "value");
}

TEST_F(RocksDatabaseTest, OldOrNewRecordIsThereWhereverTheMachineStops) {
  for (const Fault fault : {Fault::kTorn, Fault::kPowerOff}) {
    bool fired = true;
    for (uint64_t operation = 0; fired; ++operation) {
      SCOPED_TRACE(absl::StrCat("fault ", static_cast<int>(fault), " at operation ", operation));
      Begin();
      ASSERT_TRUE(Put("old").ok());
      files_->Arm(operation, fault);
      const bool written = Put("new").ok();
      fired = files_->fired();
      CutPower();
      EXPECT_THAT(Get(), AnyOf("old", "new"));
      if (written) {
        EXPECT_EQ(Get(), "new");
      }
    }
  }
}

// RocksDB refused all writes after the first error, for good.
TEST_F(RocksDatabaseTest, GoesOnAfterAnErrorAtAnyOperation) {
  for (const Fault fault : {Fault::kError, Fault::kFull}) {
    bool fired = true;
    for (uint64_t operation = 0; fired; ++operation) {
      SCOPED_TRACE(absl::StrCat("fault ", static_cast<int>(fault), " at operation ", operation));
      Begin();
      ASSERT_TRUE(Put("old").ok());
      files_->Arm(operation, fault);
      for (int i = 0; i < 3; ++i) {
        const absl::Status status = Put("new");
        if (!status.ok()) {
          EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        }
        clock_.Advance(RocksDatabase::kResumePause);
      }
      fired = files_->fired();
      files_->Heal();
      EXPECT_TRUE(Put("newest").ok());
      EXPECT_EQ(Get(), "newest");
      CutPower();
      EXPECT_EQ(Get(), "newest");
    }
  }
}

// Records enough for several logs and memtables, on a disk that is full now and then.
TEST_F(RocksDatabaseTest, ManyRecordsSurviveADiskThatIsFullNowAndThen) {
  Begin();
  const std::string large(100'000, 'x');
  std::string last;
  for (int i = 0; i < 200; ++i) {
    if (i % 20 == 10) files_->Arm(i % 7, Fault::kFull);
    if (i % 20 == 17) files_->Heal();
    const std::string value = absl::StrCat(i, large);
    if (Put(value).ok()) last = value;
    clock_.Advance(RocksDatabase::kResumePause);
  }
  EXPECT_EQ(last.substr(0, 4), "199x") << "it did not recover";
  CutPower();
  EXPECT_EQ(Get(), last);
}

// RocksDB's log is a file by default, whose writer stops the process when the disk is full.
TEST_F(RocksDatabaseTest, LogOfRocksDbIsNoFile) {
  Begin();
  ASSERT_TRUE(Put("a").ok());
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    EXPECT_NE(entry.path().filename(), "LOG");
  }
}

// Records went into files that nobody could find any more, and were lost without a word.
TEST_F(RocksDatabaseTest, DirectoryThatWasMovedAwayIsNotWrittenUntilItIsBack) {
  Begin();
  ASSERT_TRUE(Put("old").ok());
  const std::string aside = absl::StrCat(path_, ".aside");
  std::filesystem::remove_all(aside);
  std::filesystem::rename(path_, aside);
  const absl::Status status = Put("lost");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("the directory ", path_, " is no longer there")));
  EXPECT_EQ(Get(), "old");
  std::filesystem::create_directory(path_);
  EXPECT_EQ(Put("lost").code(), absl::StatusCode::kUnavailable) << "another directory";
  std::filesystem::remove(path_);
  std::filesystem::rename(aside, path_);
  EXPECT_TRUE(Put("new").ok());
  EXPECT_EQ(Get(), "new");
}

TEST_F(RocksDatabaseTest, OneProcessAtATimeMayOpenIt) {
  Begin();
  EXPECT_EQ(RocksDatabase::Open(path_).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace
