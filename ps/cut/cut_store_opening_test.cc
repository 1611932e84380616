// A store that is opened without a part of what it had: its records, its cuts, or one of either.
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/warning_count.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/cut/cut_store_fixture.h"

namespace millrace::ps {
namespace {

using ::testing::HasSubstr;

using CutStoreOpeningTest = CutStoreFixture;

// The shards began anew, though the cuts could be had again.
TEST_F(CutStoreOpeningTest, StoreWhoseCutsAreElsewhereIsNotOpened) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  store_.reset();
  std::filesystem::rename(bulk(), bulk() + ".aside");
  const absl::Status status = CutStore::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(bulk() + " is missing"));
  std::filesystem::rename(bulk() + ".aside", bulk());
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
}

// A disk that was not mounted was taken for one where nothing had been written yet.
TEST_F(CutStoreOpeningTest, StoreWithAnotherDirectoryOfCutsIsNotOpened) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  store_.reset();
  std::filesystem::rename(bulk(), bulk() + ".aside");
  std::filesystem::create_directory(bulk());
  absl::Status status = CutStore::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is empty (is it mounted?)"));
  std::ofstream(bulk() + "/DATABASE_ID") << "another";
  status = CutStore::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("its DATABASE_ID is another one"));
  std::filesystem::remove_all(bulk());
  std::filesystem::rename(bulk() + ".aside", bulk());
  std::filesystem::rename(bulk() + "/DATABASE_ID", path_ + ".id");
  status = CutStore::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("it has no DATABASE_ID (where it is the right one all the same, write "));
  std::filesystem::rename(path_ + ".id", bulk() + "/DATABASE_ID");
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
}

// All cuts were removed as nobody's.
TEST_F(CutStoreOpeningTest, StoreWhoseRecordsAreElsewhereIsNotOpened) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  store_.reset();
  std::filesystem::rename(path_, path_ + ".aside");
  for (int i = 0; i < 2; ++i) {  // Whoever starts it may do so again and again.
    const absl::Status status = CutStore::Open(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + " is missing or empty"));
  }
  EXPECT_EQ(CutFiles(), 1);
  std::filesystem::rename(path_ + ".aside", path_);
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
}

TEST_F(CutStoreOpeningTest, StoreThatWasMadeWithoutIdsGetsThem) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  store_.reset();
  ChangeDatabase([](Database* database) {
    Database::Changes changes;
    changes.remove = {DatabaseIdKey()};
    return database->Commit(changes);
  });
  std::filesystem::remove(bulk() + "/DATABASE_ID");
  for (int i = 0; i < 2; ++i) {
    Reopen();
    EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
  }
  EXPECT_TRUE(std::filesystem::exists(bulk() + "/DATABASE_ID"));
}

// Its steps since the first one were run again, although there was a checkpoint.
TEST_F(CutStoreOpeningTest, ShardThatHadACutDoesNotBeginAnewWithoutIt) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  store_.reset();
  std::filesystem::remove(bulk() + "/job.0.0.sst");
  Reopen();
  const absl::Status status = store_->ReadShard(plan, &pool_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("had a cut, and no cut of it is left"));
}

TEST_F(CutStoreOpeningTest, ShardThatHadACutDoesNotBeginAnewWithoutItAfterALaterRecord) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ++term_.generation;
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  store_.reset();
  std::filesystem::remove(bulk() + "/job.0.0.sst");
  Reopen();
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CutStoreOpeningTest, ShardThatSteppedBackToACutDoesNotBeginAnewWithoutIt) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  StepBack(plan, 4);
  store_.reset();
  std::filesystem::remove(bulk() + "/job.0.0.sst");
  Reopen();
  EXPECT_EQ(store_->ReadShard(plan, &pool_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CutStoreOpeningTest, ShardThatSteppedBackToItsInitialValuesHasThem) {
  const ShardPlan plan = Plan(/*replicas=*/1);
  Write(plan, 4);
  StepBack(plan, 0);
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 0);
}

TEST_F(CutStoreOpeningTest, ShardThatIsMadeAgainUnderItsNameBeginsAnew) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 0);
}

// They were removed without a word, and may be all that is left of it.
TEST_F(CutStoreOpeningTest, CutsOfAShardWhoseRecordIsLostStayUntilAnotherIsMade) {
  const ShardPlan plan = Plan();
  Write(plan, 5);
  store_.reset();
  LoseRecord(plan);
  WarningCount told("does not know the shard of the cut job.0.0.sst");
  for (int i = 0; i < 2; ++i) {
    Reopen();
    EXPECT_EQ(CutFiles(), 1);
    EXPECT_EQ(told.count(), i + 1);
  }
  ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 0) << "it has had no cut";
  Write(plan, 2);
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
  EXPECT_EQ(CutFiles(), 1);
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 2);
}

TEST_F(CutStoreOpeningTest, CutsOfAShardWhoseRecordIsLostGoWhenItIsDropped) {
  const ShardPlan plan = Plan();
  Write(plan, 5);
  store_.reset();
  LoseRecord(plan);
  Reopen();
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  EXPECT_EQ(CutFiles(), 0);
}

TEST_F(CutStoreOpeningTest, StoreWithoutShardsNeedsNoDirectoryOfCuts) {
  for (const bool empty : {false, true}) {
    store_.reset();
    std::filesystem::remove_all(bulk());
    if (empty) std::filesystem::create_directory(bulk());
    Reopen();
    const ShardPlan plan = Plan();
    Write(plan, 1);
    Reopen();
    EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
    ASSERT_TRUE(store_->DropShard("job", 0).ok());
  }
}

TEST_F(CutStoreOpeningTest, DirectoryOfCutsWithoutAnyIsOneOfANewStore) {
  store_.reset();
  std::filesystem::remove_all(path_);  // As after a start that was cut short.
  ASSERT_TRUE(std::filesystem::exists(bulk() + "/DATABASE_ID"));
  Reopen();
  const ShardPlan plan = Plan();
  Write(plan, 1);
  Reopen();
  EXPECT_EQ((*store_->ReadShard(plan, &pool_)).state->version, 1);
}

TEST_F(CutStoreOpeningTest, FileOfADroppedShardStaysNobodysWhileItCannotBeRemoved) {
  const ShardPlan plan = Plan();
  for (const bool made_again : {false, true}) {
    const std::string file = absl::StrCat(bulk(), "/job.0.", store_->NextNumber(), ".sst");
    Write(plan, 5);
    Unreadable(file);
    ASSERT_TRUE(store_->DropShard("job", 0).ok());
    for (int i = 0; i < 2; ++i) Reopen();
    if (made_again) {
      ASSERT_TRUE(store_->WriteRecord(plan.spec, term_).ok());
    }
    Readable(file);
    Reopen();
    EXPECT_EQ(CutFiles(), 0) << made_again;
    EXPECT_EQ(store_->Names("job", 0).size(), 0) << made_again;
  }
}

// A file that is back, or that somebody still reads, would be one of another shard.
TEST_F(CutStoreOpeningTest, NumbersOfCutsOfDroppedShardsAreNotGivenAgain) {
  const ShardPlan plan = Plan();
  Write(plan, 1);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  const uint64_t next = store_->NextNumber();
  for (int i = 0; i < 3; ++i) {
    Reopen();
    EXPECT_GE(store_->NextNumber(), next) << i;
  }
}

// Of its name another one was dropped before.
TEST_F(CutStoreOpeningTest, CutsOfAShardThatWasMadeAgainStayTooWhereItsRecordIsLost) {
  const ShardPlan plan = Plan();
  Write(plan, 5);
  ASSERT_TRUE(store_->DropShard("job", 0).ok());
  Write(plan, 2);
  store_.reset();
  ChangeDatabase([&](Database* database) {
    Database::Changes changes;
    changes.remove = {RecordKey(ShardKey("job", 0))};
    changes.put = {{DroppedKey(ShardKey("job", 0)), "1"}};
    return database->Commit(changes);
  });
  Reopen();
  EXPECT_EQ(CutFiles(), 1);
}

}  // namespace
}  // namespace millrace::ps
