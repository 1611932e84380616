#include "coordinator/journal/journal.h"

#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/storage/directory_lock.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "testing/directory/test_directory.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class JournalTest : public ::testing::Test {
 protected:
  void ExpectRefused() {
    const auto journal = Journal::Open(directory_);
    ASSERT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition) << journal.status();
    EXPECT_THAT(std::string(journal.status().message()), HasSubstr(directory_));
  }

  static JobRecord Record(uint64_t number, const std::string& id) {
    JobRecord record;
    record.set_number(number);
    record.set_job_id(id);
    return record;
  }

  const std::string directory_ = TestDirectory("journal");
};

// An older coordinator would have gone on with the job without it.
TEST_F(JournalTest, JobThatAsksForWhatThisProgramDoesNotKnowEndsBeforeItIsRead) {
  auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  JobRecord record = Record(1, "newer");
  JobSpec* const spec = record.mutable_spec();
  const auto refused = [&] {
    EXPECT_TRUE((*journal)->Write(record).ok());
    const absl::Status status = (*journal)->ReadJobs().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  spec->mutable_model()->set_loss(static_cast<Loss>(999));
  EXPECT_THAT(refused(), HasSubstr("job newer: model.loss: 999; must be one of"));
  spec->Clear();
  spec->GetReflection()->MutableUnknownFields(spec)->AddVarint(/*number=*/999, 1);
  EXPECT_THAT(refused(), HasSubstr("job newer: its spec has unknown field 999"));
  record.set_state(CANCELLED);
  ASSERT_TRUE((*journal)->Write(record).ok());
  EXPECT_THAT((*journal)->ReadJobs().value(), SizeIs(1));
}

TEST_F(JournalTest, JobsAreReadBackInTheOrderOfSubmission) {
  {
    auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (uint64_t number : {9, 10, 1}) {
      ASSERT_TRUE((*journal)->Write(Record(number, absl::StrCat("job-", number))).ok());
    }
    JobRecord changed = Record(9, "job-9");
    changed.set_state(SUCCEEDED);
    ASSERT_TRUE((*journal)->Write(changed).ok());
    ASSERT_TRUE((*journal)->WriteEvents(9, 17, 400).ok());
  }
  auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  const auto entries = (*journal)->ReadJobs();
  ASSERT_TRUE(entries.ok());
  ASSERT_THAT(*entries, SizeIs(3));
  EXPECT_EQ((*entries)[0].record.job_id(), "job-1");
  EXPECT_EQ((*entries)[0].events, 0u);
  EXPECT_EQ((*entries)[1].record.state(), SUCCEEDED);
  EXPECT_EQ((*entries)[1].events, 17u);
  EXPECT_EQ((*entries)[1].step, 400u);
  EXPECT_EQ((*entries)[2].record.job_id(), "job-10");
}

// Steps that a recovery had counted as lost were counted again after the next start.
TEST_F(JournalTest, RecordThatTakesStepsBackCountsMoreThanWhatWasToldBefore) {
  {
    auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->WriteEvents(1, 17, 1870).ok());
    JobRecord record = Record(1, "job");
    record.set_step(1440);
    ASSERT_TRUE((*journal)->Write(record).ok());
  }
  auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ((*journal)->ReadJobs()->front().step, 1440u);
  ASSERT_TRUE((*journal)->WriteEvents(1, 18, 1500).ok());
  EXPECT_EQ((*journal)->ReadJobs()->front().step, 1500u);
}

TEST_F(JournalTest, ForgottenJobIsGoneForGoodWithItsCounts) {
  {
    auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (uint64_t number : {1, 2}) {
      ASSERT_TRUE((*journal)->Write(Record(number, "job")).ok());
      ASSERT_TRUE((*journal)->WriteEvents(number, 17, 400).ok());
    }
    ASSERT_TRUE((*journal)->Forget(1).ok());
    EXPECT_TRUE((*journal)->Forget(1).ok()) << "what is not there is no error";
  }
  auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_THAT(*(*journal)->ReadJobs(), SizeIs(1));
  EXPECT_EQ((*journal)->ReadJobs()->front().record.number(), 2u);
  ASSERT_TRUE((*journal)->Write(Record(1, "another")).ok());
  EXPECT_EQ((*journal)->ReadJobs()->front().events, 0u);
  EXPECT_EQ((*journal)->ReadJobs()->front().step, 0u);
}

TEST_F(JournalTest, OneProcessAtATimeMayOpenIt) {
  auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  ExpectRefused();
}

TEST_F(JournalTest, DirectoryWithOtherFilesIsRefused) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/thesis.txt") << "unsaved";
  ExpectRefused();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/CURRENT"));
}

// It held no journal yet, and nothing else.
TEST_F(JournalTest, DirectoryOfAStartThatWasKilledAtOnceIsTaken) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/" + kLockFile);
  {
    const auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
  }
  // Or a little later: RocksDB has begun.
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directories(directory_);
  for (const char* const name : {kLockFile, "LOCK", "LOG", "IDENTITY"}) {
    std::ofstream(directory_ + "/" + name);
  }
  const auto journal = Journal::Open(directory_);
  EXPECT_TRUE(journal.ok()) << journal.status();
}

// Copies are made without locks.
TEST_F(JournalTest, CopyWithoutLocksIsTaken) {
  {
    const auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Write(Record(1, "job")).ok());
  }
  std::filesystem::remove(directory_ + "/LOCK");
  std::filesystem::remove(directory_ + "/" + kLockFile);
  const auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_THAT((*journal)->ReadJobs().value(), SizeIs(1));
}

// A job that is left out would be unknown, and its shards would go.
TEST_F(JournalTest, RecordThatIsNoneIsDataLoss) {
  {
    const auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Write(Record(1, "job")).ok());
  }
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), directory_, &db).ok());
  const std::string key = "job/00000000000000000001";
  std::string value;
  EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), key, &value).ok());
  EXPECT_TRUE(db->Put(rocksdb::WriteOptions(), key, "no record").ok());
  delete db;
  const auto journal = Journal::Open(directory_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  const absl::Status status = (*journal)->ReadJobs().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the entry " + key));
}

// Numbers of events began anew, so that somebody who watched heard of no later ones.
TEST_F(JournalTest, CountsThatCannotBeReadAreAnErrorAndNotNone) {
  {
    const auto journal = Journal::Open(directory_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Write(Record(1, "job")).ok());
    ASSERT_TRUE((*journal)->WriteEvents(1, 17, 400).ok());
  }
  // As far from what else is read as among many jobs.
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), directory_, &db).ok());
  for (const char* const between : {"events/1", "step/"}) {
    EXPECT_TRUE(db->Put(rocksdb::WriteOptions(), between, std::string(1 << 16, 'a')).ok());
  }
  delete db;
  bool fired = true;
  int failed = 0;
  for (uint64_t read = 0; fired && !HasFailure(); ++read) {
    SCOPED_TRACE(absl::StrCat("read ", read));
    const auto files = std::make_shared<FaultFileSystem>();
    const auto journal = Journal::Open(directory_, {.file_system = files});
    ASSERT_TRUE(journal.ok()) << journal.status();
    files->ArmRead(read);
    const auto entries = (*journal)->ReadJobs();
    fired = files->fired();
    files->Heal();
    if (!entries.ok()) {
      ++failed;
      continue;
    }
    ASSERT_THAT(*entries, SizeIs(1));
    EXPECT_EQ(entries->front().events, 17u);
    EXPECT_EQ(entries->front().step, 400u);
  }
  EXPECT_GE(failed, 1) << "nothing was read";
}

TEST_F(JournalTest, FileInPlaceOfTheDirectoryIsRefused) {
  std::ofstream(directory_) << "a file";
  ExpectRefused();
}

TEST_F(JournalTest, DatabaseOfSomethingElseIsRefused) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, directory_, &db).ok());
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "format", "millrace ps 1").ok());
  delete db;
  ExpectRefused();
}

TEST_F(JournalTest, DatabaseWithOtherColumnFamiliesIsRefused) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, directory_, &db).ok());
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(db->CreateColumnFamily(options, "shards", &family).ok());
  delete family;
  delete db;
  ExpectRefused();
}

// Whatever operation of a write fails: an error that passes is one that the caller can try again,
// and what a stopped machine leaves is the old record or the new one.
TEST_F(JournalTest, OldOrNewRecordIsThereWhereverAWriteFails) {
  for (const Fault fault : {Fault::kError, Fault::kFull, Fault::kTorn, Fault::kPowerOff}) {
    bool fired = true;
    for (uint64_t operation = 0; fired && !HasFailure(); ++operation) {
      SCOPED_TRACE(absl::StrCat("fault ", static_cast<int>(fault), " at operation ", operation));
      std::filesystem::remove_all(directory_);
      const auto files = std::make_shared<FaultFileSystem>();
      SimulatedClock clock;
      auto journal = Journal::Open(directory_, {.file_system = files, .clock = &clock});
      ASSERT_TRUE(journal.ok()) << journal.status();
      ASSERT_TRUE((*journal)->Write(Record(1, "old")).ok());
      files->Arm(operation, fault);
      absl::Status written = (*journal)->Write(Record(1, "new"));
      fired = files->fired();
      files->Heal();
      const bool passes = fault == Fault::kError || fault == Fault::kFull;
      for (int i = 0; i < 3 && passes && !written.ok(); ++i) {
        EXPECT_EQ(written.code(), absl::StatusCode::kUnavailable) << written;
        clock.Advance(RocksDatabase::kResumePause);
        written = (*journal)->Write(Record(1, "new"));
      }
      if (passes) {
        EXPECT_TRUE(written.ok()) << written;
      }
      files->PowerOff();
      journal->reset();
      files->DropUnsynced();
      journal = Journal::Open(directory_);
      ASSERT_TRUE(journal.ok()) << journal.status();
      const auto entries = (*journal)->ReadJobs();
      ASSERT_TRUE(entries.ok()) << entries.status();
      ASSERT_THAT(*entries, SizeIs(1));
      EXPECT_THAT(entries->front().record.job_id(), AnyOf("old", "new"));
      if (written.ok()) {
        EXPECT_EQ(entries->front().record.job_id(), "new");
      }
    }
  }
}

}  // namespace
}  // namespace millrace::coordinator
